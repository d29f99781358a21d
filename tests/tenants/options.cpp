#include "options.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace headgate::tenant {
namespace {

[[noreturn]] void refuse(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::exit(2);
}

bool whole(std::string_view text, std::uint64_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return !text.empty() && error == std::errc{} && end == text.data() + text.size();
}

}  // namespace

Options::Options(int argc, char** argv, const char* about, std::vector<Option> known) {
  known.push_back(
      {"--road", "ROAD", "how the driver is reached: dlopen (default), global, proc; linked in tenant-*-linked"});
  known.push_back({"--device", "N", "device (default 0)"});
  known.push_back({"--help", nullptr, "this text"});
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (!word.starts_with("--")) {
      rest_.push_back(word);
      continue;
    }
    const auto option = std::ranges::find_if(known, [&](const Option& one) { return word == one.name; });
    if (option == known.end()) refuse("unknown option " + word + "; try --help");
    if (option->value != nullptr && i + 1 >= argc) refuse(word + " needs a value: " + option->value);
    values_[word] = option->value == nullptr ? "" : argv[++i];
  }
  if (!flag("--help")) return;
  std::printf("%s\nOptions:\n", about);
  for (const Option& one : known) {
    std::printf("  %-24s %s\n",
                (std::string(one.name) + (one.value == nullptr ? "" : std::string(" ") + one.value)).c_str(), one.text);
  }
  std::printf("Exit status: 0 all as expected, 1 something was not, 2 bad usage, 3 the driver cannot be reached.\n");
  std::exit(0);
}

std::string Options::text(const std::string& name, const std::string& otherwise) const {
  const auto found = values_.find(name);
  return found == values_.end() ? otherwise : found->second;
}

std::uint64_t Options::number(const std::string& name, std::uint64_t otherwise, std::uint64_t most) const {
  if (!flag(name)) return otherwise;
  std::uint64_t value = 0;
  if (!whole(values_.at(name), value) || value > most)
    refuse(name + " is '" + values_.at(name) + "', not a whole number from 0 to " + std::to_string(most));
  return value;
}

std::uint64_t parse_bytes(const std::string& text) {
  std::string_view digits = text;
  std::uint64_t unit = 1, value = 0;
  for (const auto& [suffix, factor] :
       {std::pair{"KiB", 1ULL << 10}, std::pair{"MiB", 1ULL << 20}, std::pair{"GiB", 1ULL << 30}}) {
    if (digits.ends_with(suffix)) unit = factor, digits.remove_suffix(3);
    if (unit != 1) break;
  }
  if (!whole(digits, value) || value > UINT64_MAX / unit)
    refuse("'" + text + "' is not a number of bytes, KiB, MiB or GiB");
  return value * unit;
}

}  // namespace headgate::tenant
