// Any bytes give an error, or a document that is unchanged after being written and read again, at its own version and
// at its lowest.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "oci/cdi_cache.hpp"
#include "oci/cdi_read.hpp"
#include "oci/gpu_inventory.hpp"
#include "oci/share_device.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace headgate::oci;
  auto document = read_json(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!document) {
    if (document.error().message.empty()) std::abort();
    return 0;
  }
  const auto again = read_json(to_json(*document));
  if (!again || *again != *document) std::abort();
  document->version = minimum_version(*document);
  if (!check(*document)) std::abort();
  // Used as a share's driver, it must give a valid document again.
  const auto driver = gpu_driver(*document, std::vector<GpuRef>{{document->devices.front().name, 0}});
  if (!driver) std::abort();
  const Document share =
      share_document({.share = "a", .directory = "/d", .limiter = "/l", .preload_list = "/p", .driver = *driver});
  // The document and the device may each have an interface of the same name.
  if (!driver->net_devices.empty() && !check(share)) return 0;
  if (const auto read = read_json(to_json(share)); !read || *read != share) std::abort();
  if (share_directory_of(share) != "/d") std::abort();
  if (resolve({{.path = "/f", .priority = 0, .document = *document}}).size() != document->devices.size()) std::abort();
  return 0;
}
