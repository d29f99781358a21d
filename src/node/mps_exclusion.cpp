#include "node/mps_exclusion.hpp"

#include <algorithm>

namespace headgate::node {
namespace {

bool have_a_gpu_in_common(const tenancy::Share& a, const tenancy::Share& b) {
  return std::ranges::any_of(a.devices, [&](const tenancy::DeviceShare& device) {
    return std::ranges::find(b.devices, device.uuid, &tenancy::DeviceShare::uuid) != b.devices.end();
  });
}

}  // namespace

Result<void> fits_beside(const tenancy::Share& wanted, const std::vector<tenancy::Share>& others,
                         const std::set<std::string>& for_all) {
  using tenancy::Isolation;
  for (const tenancy::Share& other : others) {
    if (other.name == wanted.name || !have_a_gpu_in_common(wanted, other)) continue;
    const bool any_mps = wanted.isolation == Isolation::mps || other.isolation == Isolation::mps;
    const std::string what =
        "share '" + wanted.name + "' (isolation " + std::string(tenancy::isolation_word(wanted.isolation)) + "): ";
    if (any_mps && wanted.isolation != other.isolation)
      return fail(
          ErrorCode::conflict,
          what + (other.owner_uid == wanted.owner_uid ? "the share '" + other.name + "'" : "another user's share") +
              " of isolation " + std::string(tenancy::isolation_word(other.isolation)) +
              " is on its GPU, and mps.exclusive leaves the GPU to one kind",
          "name another GPU, or create it with --isolation=" + std::string(tenancy::isolation_word(other.isolation)));
    if (any_mps && wanted.owner_uid != other.owner_uid && !for_all.contains(wanted.devices.front().uuid))
      return fail(ErrorCode::conflict,
                  what + "another user's share under MPS is on its GPU, and mps.exclusive leaves the GPU to one user",
                  "name another GPU (--gpu)");
  }
  return {};
}

}  // namespace headgate::node
