// The CDI file of a share, as written by headgated, and the preload list for a container in it.
#pragma once

#include <string>

#include "oci/cdi_document.hpp"
#include "runtime/bundle.hpp"
#include "runtime/settings.hpp"

namespace headgate::runtime {

// Works without a running daemon. Errors: not_found if the share has no file or its directory is gone; those of reading
// it.
[[nodiscard]] Result<oci::Document> share_document_of(const std::string& share, const Settings& settings);

// The preload list chosen for a container.
struct PreloadChoice {
  enum class Kind { documents, merged, none } kind = Kind::documents;
  std::string path;     // of the merged list
  std::string warning;  // why there is no list
};

// Inspects the bundle's image. `config`: without the document's edits. Errors: unsupported if the image's programs
// cannot load the limiter and the settings refuse such images.
[[nodiscard]] Result<PreloadChoice> choose_preload_list(const Settings& settings, const oci::Document& document,
                                                        const Bundle& bundle, const oci::ContainerConfig& config);

// Returns the container's root path on the host.
[[nodiscard]] std::string root_of(const Bundle& bundle, const oci::ContainerConfig& config);

}  // namespace headgate::runtime
