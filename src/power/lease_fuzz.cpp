#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "power/lease.hpp"

// A request's body, and the file of leases.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace headgate::power;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto request = parse_lease_request(text)) {
    if (request->gpus.empty() || request->wanted.empty()) std::abort();
    if (commands_to_apply(request->wanted).size() != commands_to_restore(request->wanted).size()) std::abort();
  }
  const auto leases = parse_leases(text);
  if (leases && parse_leases(leases_json(*leases)) != leases) std::abort();
  return 0;
}
