// Combines the edits of several devices.
#pragma once

#include "oci/cdi_document.hpp"

namespace headgate::oci {

// kept: adds entries that `to` has again, as engines do. dropped: skips them, because devices repeat common edits.
enum class Repeats { kept, dropped };

// Appends `more` to each list of `to`; of two classes of service the later wins.
void add(Edits& to, const Edits& more, Repeats repeats);

}  // namespace headgate::oci
