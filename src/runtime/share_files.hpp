// The CDI file of a share, as headgated keeps it, and the list of libraries that a container in it preloads.
#pragma once

#include <functional>
#include <string>

#include "oci/cdi_document.hpp"
#include "runtime/bundle.hpp"
#include "runtime/settings.hpp"

namespace headgate::runtime {

// It is there also while the daemon is not. Errors: not_found where the share has no file, or its directory is gone;
// of reading it.
[[nodiscard]] Result<oci::Document> share_document_of(const std::string& share, const Settings& settings);

// What a container's list of preloaded libraries is to be.
struct PreloadChoice {
  enum class Kind { documents, merged, none } kind = Kind::documents;
  std::string path;     // of the merged one
  std::string warning;  // why there is none
};

// Looks at the image of the bundle. `config`: without the document's edits. Errors: unsupported for an image whose
// programs cannot load the limiter, where the settings say so.
[[nodiscard]] Result<PreloadChoice> choose_preload_list(const Settings& settings, const oci::Document& document,
                                                        const Bundle& bundle, const oci::ContainerConfig& config);

// As the host sees it.
[[nodiscard]] std::string root_of(const Bundle& bundle, const oci::ContainerConfig& config);

}  // namespace headgate::runtime
