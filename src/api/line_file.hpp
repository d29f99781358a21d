// A file of lines for collectors that follow files. It rotates itself, so that it never fills a disk.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"

namespace headgate::api {

class LineFile {
 public:
  // Rotated files are PATH.1 (the newest) to PATH.`kept`. Not thread-safe.
  explicit LineFile(std::string path, std::uint64_t most_bytes = 64ull << 20, unsigned kept = 3)
      : path_(std::move(path)), most_bytes_(most_bytes), kept_(kept) {}

  // Appends whole lines, all or none. Rotates first if the file would exceed most_bytes. Reopens the file at each call,
  // so an external logrotate need not notify us. Errors: failed, denied, no_capacity, naming the path.
  Result<void> add(const std::string& lines);

 private:
  void turn_over();

  std::string path_;
  std::uint64_t most_bytes_;
  unsigned kept_;
};

}  // namespace headgate::api
