#include "nvml/library.hpp"

#include <dlfcn.h>
#include <link.h>

#include <array>
#include <utility>

namespace headgate::nvml {
namespace {

constexpr const char* kNoDriverHint =
    "no NVIDIA driver is needed to try it: 'headgate run --sim ...' and 'headgated --sim' use a simulated GPU";

}  // namespace

std::string text_of(abi::nvmlReturn_t (*ask)(abi::nvmlDevice_t, char*, unsigned), abi::nvmlDevice_t device) {
  std::array<char, 96> text{};
  return call(ask, device, text.data(), static_cast<unsigned>(text.size())) ? text.data() : "";
}

std::string words(abi::nvmlReturn_t result) {
  switch (result) {
    case abi::NVML_ERROR_DRIVER_NOT_LOADED: return "the kernel driver is not loaded";
    case abi::NVML_ERROR_NO_PERMISSION: return "permission denied";
    case abi::NVML_ERROR_LIBRARY_NOT_FOUND: return "a library of the driver is missing";
    case abi::NVML_ERROR_GPU_IS_LOST: return "a GPU is lost";
    default: return "NVML error " + std::to_string(static_cast<unsigned>(result));
  }
}

Result<Library> Library::open(const std::string& file) {
  // Never closed, because a driver's library does not survive dlclose.
  void* const handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* error = ::dlerror();
    return fail(ErrorCode::unreachable,
                std::string("no NVIDIA driver here: ") + (error != nullptr ? error : file.c_str()), kNoDriverHint);
  }
  Library library;
  Functions& f = library.functions_;
#define NVML_FN(name, kind, parameters, arguments) f.name = reinterpret_cast<abi::name##_t*>(::dlsym(handle, #name));
#include "guest/abi/nvml_table.def"
#define NVML_MORE(name, parameters) f.name = reinterpret_cast<decltype(f.name)>(::dlsym(handle, #name));
#include "nvml/more.def"
  if (f.nvmlInit_v2 == nullptr || f.nvmlDeviceGetCount_v2 == nullptr || f.nvmlDeviceGetHandleByIndex_v2 == nullptr ||
      f.nvmlDeviceGetUUID == nullptr || f.nvmlDeviceGetName == nullptr || f.nvmlDeviceGetMemoryInfo == nullptr) {
    return fail(ErrorCode::unreachable, file + " lacks functions that every NVML since 2013 has",
                "headgate doctor --symbols " + file + " lists them");
  }
  if (const auto result = f.nvmlInit_v2(); result != abi::NVML_SUCCESS)
    return fail(ErrorCode::unreachable, "the NVIDIA driver does not answer: " + words(result), kNoDriverHint);
  library.open_ = true;
  link_map* map = nullptr;
  if (::dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr) library.path_ = map->l_name;
  return library;
}

Library::Library(Library&& other) noexcept { *this = std::move(other); }

Library& Library::operator=(Library&& other) noexcept {
  if (this == &other) return *this;
  close();
  functions_ = other.functions_;
  path_ = std::move(other.path_);
  open_ = std::exchange(other.open_, false);
  return *this;
}

Library::~Library() { close(); }

void Library::close() {
  if (std::exchange(open_, false) && functions_.nvmlShutdown != nullptr) functions_.nvmlShutdown();
}

std::string Library::driver_version() const {
  std::array<char, 96> text{};
  return call(functions_.nvmlSystemGetDriverVersion, text.data(), 96u) ? text.data() : "";
}

}  // namespace headgate::nvml
