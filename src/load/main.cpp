#include <cstdio>
#include <string_view>
#include <vector>

#include "load/generate.hpp"

using namespace headgate;

namespace {

int complain(const Error& error) {
  std::fprintf(stderr, "headgate-load: %s\n", error.message.c_str());
  if (!error.hint.empty()) std::fprintf(stderr, "  %s\n", error.hint.c_str());
  return exit_status(error.code);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string_view> words(argv + 1, argv + argc);
  const auto options = load::parse_options(words);
  if (!options) return complain(options.error());
  if (options->help) {
    std::fputs(load::usage().data(), stdout);
    return 0;
  }
  const auto report = load::generate(*options);
  if (!report) return complain(report.error());
  std::puts(load::to_json(*options, *report).c_str());
  return 0;
}
