// What a library of the simulator exports follows the driver release that its node's profile names: dlsym finds no
// function that came later, as in a real library of that release. A program that is linked with a later name starts all
// the same.
#pragma once

#include <vector>

namespace headgate::sim {

// Returns the CUDA version of the node that this process would open, or of the profile for a new node.
[[nodiscard]] int cuda_version_at_load();

// Hides these names of the loaded library that has this address from dlsym, but for those that an object which is
// loaded by then is linked with. An object that is loaded later binds to them too.
void hide_from_dlsym(const void* address_in_library, const std::vector<const char*>& names);

}  // namespace headgate::sim
