#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "api/zeusd_wire.hpp"
#include "http/codec.hpp"

// The input is a request target as received.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace headgate;
  using Kind = api::ZeusdParameter::Kind;
  static constexpr api::ZeusdParameter kParameters[] = {
      {"gpu_ids", Kind::ids, true}, {"power_limit_mw", Kind::number, false}, {"block", Kind::flag, true}};
  const auto target = http::parse_target(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!target) return 0;
  const auto query = api::parse_zeusd_query(target->query, kParameters);
  if (!query) {
    if (query.error().message.empty()) std::abort();
    return 0;
  }
  const auto ids = query->list("gpu_ids");
  if (!ids || ids->empty() || query->flags.size() != 1) std::abort();
  for (std::size_t i = 1; i < ids->size(); ++i)
    if ((*ids)[i - 1] >= (*ids)[i]) std::abort();
  return 0;
}
