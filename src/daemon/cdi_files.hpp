// Keeps a CDI file for each share, by which engines start containers in it (`podman run --device
// headgate.io/share=NAME`). Each file is whole at every moment, and exists before the share is announced. A file that
// cannot be written is an event and a problem of the share, never the end of the daemon. For the daemon's loop only.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "config/config.hpp"
#include "daemon/options.hpp"
#include "observe/event_log.hpp"
#include "oci/cdi_document.hpp"
#include "oci/gpu_inventory.hpp"
#include "oci/share_device.hpp"
#include "snapshot/snapshot.hpp"
#include "tenancy/shares.hpp"

namespace headgate::daemon {

// Finds the CDI documents of the machine's GPUs (kind nvidia.com/gpu), which NVIDIA's tools make, and notices when they
// change.
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

class CdiFiles {
 public:
  // Returns --cdi-dir, else cdi.dir, else root's usual place; empty: no files. Errors: usage, naming option or key.
  [[nodiscard]] static Result<std::string> directory_of(const config::Config& config, const Options& options);

  // How programs of a container in that share become clients of MPS; nothing: they do not.
  using MpsClientOf = std::function<Result<std::optional<oci::MpsClient>>(const std::string& share)>;

  // `simulated_node`: its directory; empty on a real node, where NVIDIA's CDI documents tell of `gpus`. Both references
  // must outlive it.
  CdiFiles(std::string directory, const std::string& simulated_node, const std::vector<snapshot::Gpu>& gpus,
           tenancy::Shares& shares, observe::EventLog& events, MpsClientOf mps_client_of = {});

  // Writes the files of all shares, and removes those of shares that are gone. Leaves others' files alone.
  void start();
  void add(const std::string& share);
  void remove(const std::string& share);
  // Called each second. Writes again files that were removed or could not be written, those that a share's new limits
  // change, and all when NVIDIA's documents have changed.
  void keep();
  // Adds where the files lie, and why one is missing.
  void write_into(snapshot::Snapshot& snapshot) const;

 private:
  [[nodiscard]] std::string path_of(const std::string& share) const;
  [[nodiscard]] Result<oci::Edits> driver_of(const tenancy::Share& share) const;
  Result<void> write(const std::string& name) const;
  Result<void> write_preload_list() const;
  void note(const std::string& share, const Result<void>& written);
  void remove_stale() const;

  const std::string directory_, preload_list_;
  tenancy::Shares& shares_;
  observe::EventLog& events_;
  std::string limiter_;
  const MpsClientOf mps_client_of_;
  std::optional<oci::Edits> simulated_driver_;
  std::vector<oci::GpuRef> gpus_;
  GpuDocuments documents_;
  std::string lack_;                                                 // why there can be no file; empty: there can
  std::map<std::string, std::vector<tenancy::DeviceShare>> limits_;  // by share: the limits last written
  std::map<std::string, std::string> problems_;                      // by share; empty text: its file is written
};

}  // namespace headgate::daemon
