// Which share a container asks for, and its config.json edited so that all of its programs are in that share. Pure.
#pragma once

#include <string>
#include <string_view>

#include "oci/container_config.hpp"

namespace headgate::oci {

inline constexpr const char* kShareAnnotation = "headgate.io/share";

struct ShareRules {
  bool from_environment = false;           // HEADGATE_SHARE counts; an image can set it too
  std::string gpu_without_share = "pass";  // pass, refuse, or a share
  bool next_is_nvidias = false;            // what is executed adds GPUs by NVIDIA_VISIBLE_DEVICES itself
};

enum class AskedBy { nothing, annotation, device_request, environment, engine, rule };

struct ShareChoice {
  std::string share;  // empty: none
  AskedBy by = AskedBy::nothing;
  friend bool operator==(const ShareChoice&, const ShareChoice&) = default;
};

// The annotation; `--gpus '"device=headgate.io/share=a"'`, which is believed only beside the hook that an engine adds
// for it, as images set NVIDIA_VISIBLE_DEVICES too; the environment; what an engine has mounted already; the rule for a
// GPU without a share. Errors: usage for two shares and for what is no name of one; denied for a GPU that the rule
// refuses, and for a privileged container in a share, which has every GPU of the node.
[[nodiscard]] Result<ShareChoice> choose_share(const ContainerConfig& config, const ShareRules& rules);

// Whether NVIDIA's programs, or device nodes, give the container a GPU.
[[nodiscard]] bool has_gpu(const ContainerConfig& config, bool next_is_nvidias);

// The container in the share of `document` (share_document()): NVIDIA's hook and its variables go, the document's edits
// come, unless the engine has made them already. Errors: denied for GPU nodes that are not the share's; usage if it is
// no document of a share; of ContainerConfig::apply().
[[nodiscard]] Result<ContainerConfig> in_share(ContainerConfig config, const Document& document, AskedBy by,
                                               const FindHostNode& find);

// Mounts another list of libraries than the document's, or none at all where `path` is empty: then no program loads the
// limiter.
void replace_preload_list(ContainerConfig& config, const std::string& path);

}  // namespace headgate::oci
