// Edits of several devices together.
#pragma once

#include "oci/cdi_document.hpp"

namespace headgate::oci {

// What `to` has already is added again (as engines do it), or not (where devices repeat what all of them need).
enum class Repeats { kept, dropped };

// Adds `more` at the end of each list of `to`; of two classes of service the later one is taken.
void add(Edits& to, const Edits& more, Repeats repeats);

}  // namespace headgate::oci
