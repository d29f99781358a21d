// Finds the share a container asks for, and edits its config.json so that all its programs run in it. Pure.
#pragma once

#include <string>

#include "oci/container_config.hpp"

namespace headgate::oci {

inline constexpr const char* kShareAnnotation = "headgate.io/share";

struct ShareRules {
  bool from_environment = false;           // accept HEADGATE_SHARE, which an image can also set
  std::string gpu_without_share = "pass";  // pass, refuse, or a share's name
  bool next_is_nvidias = false;            // the executed program adds GPUs by NVIDIA_VISIBLE_DEVICES
};

enum class AskedBy { nothing, annotation, device_request, environment, engine, rule };

struct ShareChoice {
  std::string share;  // empty: none
  AskedBy by = AskedBy::nothing;
  friend bool operator==(const ShareChoice&, const ShareChoice&) = default;
};

// Reads, in order: an engine's existing mount; the annotation; `--gpus '"device=headgate.io/share=a"'`, only if the
// engine added its hook, because images may set NVIDIA_VISIBLE_DEVICES too; the environment; the rule for a GPU without
// a share. Errors: usage for two shares or an invalid name; denied for a GPU that the rule refuses, or for a privileged
// container in a share, which has every GPU of the node.
[[nodiscard]] Result<ShareChoice> choose_share(const ContainerConfig& config, const ShareRules& rules);

// Returns true if NVIDIA's programs or device nodes give the container a GPU.
[[nodiscard]] bool has_gpu(const ContainerConfig& config, bool next_is_nvidias);

// Puts the container into the share of `document` (see share_document()): removes NVIDIA's hook and variables, and
// applies the document's edits unless the engine already has. Errors: denied for GPU nodes outside the share; usage if
// it is not a share's document; those of ContainerConfig::apply().
[[nodiscard]] Result<ContainerConfig> in_share(ContainerConfig config, const Document& document, AskedBy by,
                                               const FindHostNode& find);

// Mounts another preload list than the document's, or none if `path` is empty, so that no program loads the limiter.
void replace_preload_list(ContainerConfig& config, const std::string& path);

}  // namespace headgate::oci
