// Finds the CDI documents of the machine's GPUs (kind nvidia.com/gpu), which NVIDIA's tools make, and notices when they
// change.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "oci/cdi_document.hpp"
#include "oci/gpu_driver.hpp"
#include "oci/gpu_inventory.hpp"

namespace headgate::daemon {

class GpuDocuments {
 public:
  // `directories`: the higher priority last, as engines have them. `root`: where this node's driver lies, "" for this
  // machine.
  explicit GpuDocuments(std::vector<std::string> directories, std::string root = {})
      : directories_(std::move(directories)), root_(std::move(root)) {}

  // Reads documents and inventory again if one of their files has changed; returns whether the results may change.
  bool look();
  // Returns what gives a container these GPUs, by the document of the highest priority that has them all. Without a
  // document of GPUs, uses our own inventory of the node. Errors: not_found, with what is wrong with each document.
  [[nodiscard]] Result<oci::Edits> driver_of(std::span<const oci::GpuRef> gpus) const;

 private:
  struct File {
    std::string path;
    ino_t inode = 0;
    std::int64_t changed_ns = 0, size = 0;
    friend bool operator==(const File&, const File&) = default;
  };
  struct Found {
    std::string path;
    Result<oci::Document> document;
  };
  [[nodiscard]] std::vector<File> files() const;

  const std::vector<std::string> directories_;
  const std::string root_;
  std::string stamp_;  // of the inventory
  oci::GpuInventory inventory_;
  std::vector<File> seen_;
  std::vector<Found> found_;  // the highest priority first
};

}  // namespace headgate::daemon
