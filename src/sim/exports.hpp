// What a library of the simulator exports follows the driver release that its node's profile names, with
// HEADGATE_SIM_EXPORTS=release: functions that came later are not found, as in a real library of that release. Without
// it, programs that are built with newer headers than that release find all.
#pragma once

#include <vector>

namespace headgate::sim {

// The CUDA version of the node that this process would open, or of the profile that it would make one with.
[[nodiscard]] int cuda_version_at_load();

// Takes these names out of the dynamic symbol table of the loaded library that has this address: no look-up finds them
// from then on. What is bound to one of them already stays so, as in a program that is linked with it.
void stop_exporting(const void* address_in_library, const std::vector<const char*>& names);

}  // namespace headgate::sim
