// Takes the functions that came after the node's driver release out of the library when it is loaded.
#include "sim/driver/library.hpp"
#include "sim/driver/proc_address.hpp"
#include "sim/exports.hpp"

namespace headgate::sim::driver {
namespace {

__attribute__((constructor)) void export_only_this_release() {
  stop_exporting(reinterpret_cast<const void*>(&export_only_this_release), entries_newer_than(cuda_version()));
}

}  // namespace
}  // namespace headgate::sim::driver
