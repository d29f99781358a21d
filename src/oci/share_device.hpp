// A share as a CDI device, headgate.io/share=NAME: what an engine does to a container so that all its programs are in
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

// Where containers have things. The limiter and the simulator look there, whatever the environment says.
inline constexpr std::string_view kMountedShare = "/run/headgate/share";
inline constexpr std::string_view kMountedLimiter = "/run/headgate/libheadgate.so";
inline constexpr std::string_view kMountedSimulatedNode = "/run/headgate/simulated-node";

// Loaders of Debian's kind look into the first without being told, those of Fedora's kind into the second.
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
  std::string share;         // its name, which is_device_name()
  std::string directory;     // RUNTIME/shares/NAME
  std::string limiter;       // libheadgate.so, on a file system whose files may be executed
  std::string preload_list;  // a file with the text preload_list()
  Edits driver;              // GPUs and the files of their driver
  // Of each of its GPUs, contexts included; empty: no limit, or not the same on all. The driver holds it too where
  // NVIDIA's document has the hook for that (container toolkit 1.20.1, driver r615).
  std::optional<std::uint64_t> memory_mib = {};
  // Server and clients meet in shared memory too, so the container gets the host's /dev/shm.
  std::optional<MpsClient> mps = {};
};

// "headgate.io/share=NAME": what `--device` takes.
[[nodiscard]] std::string share_device_name(std::string_view share);
// "headgate.io-share_NAME.json".
[[nodiscard]] std::string share_file_name(std::string_view share);
// The share whose file is called so; empty: no file of a share is.
[[nodiscard]] std::optional<std::string> share_of_file_name(std::string_view file);

// The text of the /etc/ld.so.preload of such a container.
[[nodiscard]] std::string preload_list();

// The driver of a simulated node: its libraries, where loaders look without being told, and the node's directory.
[[nodiscard]] Edits simulated_driver(const std::string& libraries, const std::string& node);

// At its lowest version.
[[nodiscard]] Document share_document(const ShareDevice& device);

// The directory on the host that a document's share device mounts at kMountedShare; empty: it is no document of a
// share.
[[nodiscard]] std::string share_directory_of(const Document& document);

}  // namespace headgate::oci
