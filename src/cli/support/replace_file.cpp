#include "cli/support/replace_file.hpp"

#include <random>

#include "base/whole_file.hpp"
#include "cli/term/output.hpp"

namespace headgate::cli {

Result<void> replace_file(int at, const std::string& path, std::string_view content, mode_t mode,
                          const std::string& shown) {
  // A random suffix, because another command may be replacing the same file.
  const std::string beside = path + ".new-" + std::to_string(std::random_device{}());
  return replace_whole_file(path, content, {.mode = mode, .at = at, .beside = beside, .shown = harmless(shown)});
}

}  // namespace headgate::cli
