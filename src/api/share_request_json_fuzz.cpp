// An untrusted request body must give a share request, a quota, or an error without terminal control bytes.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "api/share_request_json.hpp"

namespace {

void must_be_harmless(const headgate::Error& error) {
  for (const char c : error.message) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace headgate::api;
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (const auto order = share_request_from(text); !order) must_be_harmless(order.error());
  if (const auto quota = quota_change_from(text); !quota) must_be_harmless(quota.error());
  else if (to_json(headgate::tenancy::changed({}, *quota)).empty()) std::abort();
  return 0;
}
