// A file that lines are added to for collectors that follow files; it is turned over by itself, so that it never fills
// a disk.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"

namespace headgate::api {

class LineFile {
 public:
  // Former files are PATH.1 (the newest) to PATH.`kept`. Not thread-safe.
  explicit LineFile(std::string path, std::uint64_t most_bytes = 64ull << 20, unsigned kept = 3)
      : path_(std::move(path)), most_bytes_(most_bytes), kept_(kept) {}

  // Adds whole lines; where the file would grow beyond most_bytes it is turned over before. Opened at each call:
  // whoever else turns it over (logrotate) need not tell us. All of them or none. Errors: failed, denied, no_capacity,
  // naming the path.
  Result<void> add(const std::string& lines);

 private:
  void turn_over();

  std::string path_;
  std::uint64_t most_bytes_;
  unsigned kept_;
};

}  // namespace headgate::api
