#include "identity/cgroup.hpp"

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "identity/process.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace headgate::identity;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto lines = parse_cgroup(text);
  if (!lines && lines.error().hint.empty()) std::abort();
  const Identity identity = lines ? identify(*lines) : identify(text);
  if (!identity.container_id.empty() && identity.container_id.size() != 64) std::abort();
  if (!identity.step.empty() && identity.job.empty()) std::abort();
  const std::size_t half = size / 2;
  const auto process = parse_process(text.substr(0, half), text.substr(half));
  if (process && (process->pid == 0 || process->command.size() > 15)) std::abort();
  return 0;
}
