// headgate-oci: an OCI runtime that starts containers in their shares and leaves the rest to runc or crun, and Docker's
// device requests as a filter.
#include <cstdio>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "base/standard_streams.hpp"
#include "runtime/apply.hpp"
#include "runtime/hook.hpp"
#include "runtime/report.hpp"
#include "runtime/runtime.hpp"

namespace {

constexpr const char* kUsage =
    "usage: headgate-oci [--headgate-config FILE] RUNTIME-WORDS...   as an engine's OCI runtime\n"
    "       headgate-oci hook [--headgate-config FILE]               as a createRuntime hook\n"
    "       headgate-oci apply --request FILE [--cdi-dir DIR]... [--no-cdi] [--hook-first]\n"
    "                          [--driver-version VERSION]\n"
    "\n"
    "The first edits the config.json of a container that asks for a share (annotation headgate.io/share), then "
    "executes\n"
    "runc or crun. The second, also under the name nvidia-container-runtime-hook, mounts the share and the limiter "
    "into a\n"
    "container that is being made. The third applies Docker's DeviceRequests to a config.json, from stdin to stdout.\n";

constexpr std::size_t kMaxInput = (4 << 20) + 1;  // one more than is accepted

int apply_main(const std::vector<std::string>& words) {
  using namespace headgate;
  std::string config(kMaxInput, '\0');
  std::cin.read(config.data(), static_cast<std::streamsize>(config.size()));
  config.resize(static_cast<std::size_t>(std::cin.gcount()));
  const auto output = runtime::apply(words, config);
  if (!output) {
    std::fprintf(stderr, "%s\n", runtime::sentence(output.error()).c_str());
    return 1;
  }
  for (const std::string& warning : output->warnings) std::fprintf(stderr, "headgate: %s\n", warning.c_str());
  const bool written = std::fputs(output->config.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
  if (!written) std::fputs("headgate: cannot write to standard output\n", stderr);
  return written ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  headgate::fill_standard_streams();
  const std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  const std::string_view name = argc > 0 ? argv[0] : "";
  if (name.substr(name.rfind('/') + 1) == headgate::runtime::kNvidiasHook)
    return headgate::runtime::hook_main({.as_nvidias = true, .words = words, .configuration = {}});
  if (words.empty()) return std::fputs(kUsage, stderr), 2;
  if (words[0] == "hook") {
    const bool named = words.size() == 3 && words[1] == "--headgate-config";
    if (words.size() != 1 && !named) return std::fputs(kUsage, stderr), 2;
    return headgate::runtime::hook_main(
        {.as_nvidias = false, .words = {}, .configuration = named ? words[2] : std::string()});
  }
  if (words[0] == "--help") return std::fputs(kUsage, stdout), 0;
  if (words[0] == "apply") return apply_main({words.begin() + 1, words.end()});
  return headgate::runtime::run_runtime(words);
}
