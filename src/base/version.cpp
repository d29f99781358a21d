#include "base/version.hpp"

namespace headgate {

std::string version_text(const Version& version) {
  std::string text(version.number);
  if (version.commit.empty()) return text;
  return text + " (commit " + std::string(version.commit) + (version.modified ? ", modified)" : ")");
}

}  // namespace headgate
