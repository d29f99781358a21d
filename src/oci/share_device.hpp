// A share as a CDI device, headgate.io/share=NAME: the edits with which an engine puts all programs of a container into
// the share.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "oci/cdi_document.hpp"

namespace headgate::oci {

inline constexpr std::string_view kShareKind = "headgate.io/share";

// Paths in containers. The limiter and the simulator look there, whatever the environment says.
inline constexpr std::string_view kMountedShare = "/run/headgate/share";
inline constexpr std::string_view kMountedLimiter = "/run/headgate/libheadgate.so";
inline constexpr std::string_view kMountedSimulatedNode = "/run/headgate/simulated-node";

// Default library directories: the first for Debian-like loaders, the second for Fedora-like ones.
#if defined(__aarch64__)
inline constexpr std::array<std::string_view, 2> kLibraryPlaces = {"/usr/lib/aarch64-linux-gnu", "/usr/lib64"};
#else
inline constexpr std::array<std::string_view, 2> kLibraryPlaces = {"/usr/lib/x86_64-linux-gnu", "/usr/lib64"};
#endif

// Of an MPS control daemon of the host, whose clients the programs are to be.
struct MpsClient {
  std::string pipe_directory;    // has the same path in the container: a variable names it
  std::vector<std::string> env;  // NAME=VALUE
};

// Paths on the host.
struct ShareDevice {
  std::string share;         // its name; must satisfy is_device_name()
  std::string directory;     // RUNTIME/shares/NAME
  std::string limiter;       // libheadgate.so, on a file system without noexec
  std::string preload_list;  // a file with the text preload_list()
  Edits driver;              // GPUs and the files of their driver
  // Memory of each of its GPUs, contexts included; empty: no limit, or different limits. The driver enforces it too if
  // NVIDIA's document has the hook for that (container toolkit 1.20.1, driver r615).
  std::optional<std::uint64_t> memory_mib = {};
  // Server and clients meet in shared memory too, so the container gets the host's /dev/shm.
  std::optional<MpsClient> mps = {};
};

// Returns "headgate.io/share=NAME", for `--device`.
[[nodiscard]] std::string share_device_name(std::string_view share);
// Returns "headgate.io-share_NAME.json".
[[nodiscard]] std::string share_file_name(std::string_view share);
// Returns the share with this file name; empty if it is not a share's file name.
[[nodiscard]] std::optional<std::string> share_of_file_name(std::string_view file);

// Returns the text of /etc/ld.so.preload for such a container.
[[nodiscard]] std::string preload_list();

// Returns the edits for a simulated node: its libraries in the loaders' default directories, and the node's directory.
[[nodiscard]] Edits simulated_driver(const std::string& libraries, const std::string& node);

// Returns the document at its lowest version.
[[nodiscard]] Document share_document(const ShareDevice& device);

// Returns the host directory that a share's document mounts at kMountedShare; empty if it is not a share's document.
[[nodiscard]] std::string share_directory_of(const Document& document);

}  // namespace headgate::oci
