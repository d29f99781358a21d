#include "power/lease_file.hpp"

#include <unistd.h>

#include <cerrno>

#include "base/whole_file.hpp"

namespace headgate::power {

Result<std::vector<Lease>> load_leases(const std::string& path) {
  constexpr std::size_t kMaxBytes = 16 << 20;
  if (::access(path.c_str(), F_OK) != 0 && errno == ENOENT) return std::vector<Lease>{};
  return parse_leases(TRY(read_whole_file(path, kMaxBytes)).text);
}

Result<void> save_leases(const std::string& path, const std::vector<Lease>& leases) {
  return replace_whole_file(path, leases_json(leases), {});
}

}  // namespace headgate::power
