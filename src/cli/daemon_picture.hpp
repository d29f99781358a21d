// The daemon's snapshot as the picture that the views draw.
#pragma once

#include "cli/views.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::cli {

[[nodiscard]] Picture picture_of(const snapshot::Snapshot& snapshot);

}  // namespace headgate::cli
