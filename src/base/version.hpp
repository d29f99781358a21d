// The version of headgate.
#pragma once

#include <string>
#include <string_view>

namespace headgate {

struct Version {
  std::string_view number;  // "0.1.0"
  std::string_view commit;  // 12 digits or more; empty if unknown to the build
  bool modified;            // the tree had uncommitted changes
};

// Of this build, from a file that the build writes (cmake/build_facts.cmake).
extern const Version kVersion;

// "0.1.0 (commit 1a2b3c4d5e6f, modified)", "0.1.0".
[[nodiscard]] inline std::string version_text(const Version& version = kVersion) {
  std::string text(version.number);
  if (version.commit.empty()) return text;
  return text + " (commit " + std::string(version.commit) + (version.modified ? ", modified)" : ")");
}

}  // namespace headgate
