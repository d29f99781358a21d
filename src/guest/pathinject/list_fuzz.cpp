// The input is a list and its additions, separated by NUL.
#include "guest/pathinject/list.hpp"

#include <cstdint>
#include <cstdlib>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace headgate::pathinject;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  std::string_view parts[5];
  for (std::string_view& part : parts) {
    const std::size_t end = std::min(rest.find('\0'), rest.size());
    part = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  const Additions additions = {{parts[1], parts[2]}, {parts[3], parts[4]}};
  for (const std::string_view separators : {kPathSeparators, kLibraryPathSeparators, kPreloadSeparators}) {
    std::string out(size + 8, 'x'), again(size + 8, 'x'), small(size / 2, 'x');
    (void)edited(parts[0], additions, separators, small);
    if (!edited(parts[0], additions, separators, out)) continue;
    const std::string_view after = out.c_str();
    if (after.size() <= parts[0].size() || after.find(parts[0]) == std::string_view::npos) std::abort();
    if (edited(after, additions, separators, again)) std::abort();
  }
  return 0;
}
