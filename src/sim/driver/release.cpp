// Hides the functions that came after the node's driver release when the library is loaded.
#include "sim/driver/library.hpp"
#include "sim/driver/proc_address.hpp"
#include "sim/exports.hpp"

namespace headgate::sim::driver {
namespace {

__attribute__((constructor)) void export_only_this_release() {
  hide_from_dlsym(reinterpret_cast<const void*>(&export_only_this_release), entries_newer_than(cuda_version()));
}

}  // namespace
}  // namespace headgate::sim::driver
