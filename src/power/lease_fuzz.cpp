#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "power/lease.hpp"
#include "power/request.hpp"

// Fuzzes a request's body and the file of leases.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace headgate::power;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const RequestKind kind : {RequestKind::settings, RequestKind::reset, RequestKind::lease}) {
    const auto request = parse_power_request(kind, text);
    if (!request || kind == RequestKind::reset || !request->profile.empty()) continue;
    const auto again = parse_power_request(RequestKind::settings,
                                           R"({"gpus":"all","settings":)" + settings_json(request->wanted) + "}");
    if (!again || again->wanted != request->wanted) std::abort();
  }
  const auto leases = parse_leases(text);
  if (leases && parse_leases(leases_json(*leases)) != leases) std::abort();
  return 0;
}
