// Identifies functions by address first: an address that is one governed function's ELF symbol is that function,
// whatever name was asked. Entry points without an ELF symbol, or shared by several names, are identified by name: the
// variant current at the requested version, if the driver returns the same pointer for the version that introduced it.
// (A variant newer than we know must not get an older one's hook.)
#include <atomic>
#include <cstddef>
#include <string_view>

#include "guest/abi/names.hpp"
#include "guest/bare/text.hpp"
#include "guest/limiter/route/forward.hpp"
#include "guest/limiter/route/governed.hpp"

namespace headgate::limiter {
namespace {

struct Seat {
  std::atomic<void*> address;
  std::atomic<const Governed*> governed;  // nullptr: several names share the address
};
constexpr std::size_t kSeats = 2048;
Seat seats[kSeats];
std::atomic<bool> seated{false};

std::size_t start_of(const void* address) {
  const auto value = reinterpret_cast<std::uintptr_t>(address);
  return static_cast<std::size_t>((value >> 4) * 0x9e37'79b9'7f4a'7c15ull >> 32) % kSeats;
}

Seat* seat_of(const void* address) {
  for (std::size_t i = start_of(address);; i = (i + 1) % kSeats) {
    void* held = seats[i].address.load(std::memory_order_acquire);
    if (held == address) return &seats[i];
    if (held == nullptr) return nullptr;
  }
}

void seat(void* address, const Governed& governed) {
  for (std::size_t i = start_of(address);; i = (i + 1) % kSeats) {
    void* held = nullptr;
    if (seats[i].address.compare_exchange_strong(held, address)) {
      seats[i].governed.store(&governed, std::memory_order_release);
      return;
    }
    if (held != address) continue;
    if (seats[i].governed.load() != &governed) seats[i].governed.store(nullptr, std::memory_order_release);
    return;
  }
}

// Threads may run this at once: they store the same entries. If two names have one address, it ends marked as shared
// whichever thread is last, because the second name in each thread finds the first.
void seat_all() {
  if (seated.load(std::memory_order_acquire)) return;
  for (const Governed& governed : governed_cuda()) {
    if (void* address = __atomic_load_n(governed.real, __ATOMIC_ACQUIRE); address != nullptr) seat(address, governed);
  }
  seated.store(true, std::memory_order_release);
}

constexpr std::string_view kPerThreadSuffixes[] = {"_ptsz", "_ptds"};

bool is_variant_of(std::string_view name, std::string_view asked) {
  if (abi::base_of(name) == asked) return true;
  if (abi::is_per_thread(name)) name.remove_suffix(5);
  return name == asked;
}

void* ask(const char* symbol, int version, std::uint64_t flags) {
  void* found = nullptr;
  abi::CUdriverProcAddressQueryResult status{};
  if (auto* newer = real(driver.cuGetProcAddress_v2); newer != nullptr) {
    if (newer(symbol, &found, version, flags, &status) != abi::CUDA_SUCCESS) return nullptr;
  } else if (auto* older = real(driver.cuGetProcAddress); older != nullptr) {
    if (older(symbol, &found, version, flags) != abi::CUDA_SUCCESS) return nullptr;
  }
  return found;
}

// Returns the per-thread twin if the flag asks for it and it exists, else the variant itself.
const Governed* twin(const abi::Name& variant, std::uint64_t flags) {
  if ((flags & abi::CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0) {
    char name[96];
    for (const std::string_view suffix : kPerThreadSuffixes) {
      const Governed* const found = find_governed(bare::Text(name).add(variant.name, suffix).view());
      if (found != nullptr) return found;
    }
  }
  return find_governed(variant.name);
}

void* by_name(void* answered, const char* symbol, int version, std::uint64_t flags) {
  const abi::Name* current = nullptr;
  for (const abi::Name& row : abi::cuda_names_from(symbol)) {
    const bool hooked = row.has_signature && row.kind != abi::Kind::pass;
    if (!hooked || abi::is_per_thread(row.name) || abi::base_of(row.name) != symbol || row.since > version) continue;
    if (current == nullptr || row.since > current->since) current = &row;
  }
  // Per-thread variants of old functions came with CUDA 7.0; for older versions the driver returns the legacy ones.
  if (current == nullptr) return answered;
  int introduced = current->since;
  if ((flags & abi::CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0 && introduced < 7000) introduced = 7000;
  if (introduced > version) introduced = version;
  if (ask(symbol, introduced, flags) != answered) return answered;
  const Governed* governed = twin(*current, flags);
  return governed == nullptr ? answered : governed->hook;
}

// Returns our hook if `answered`, a pointer of the driver, is a governed function, else `answered`.
void* swap_pointer(void* answered, const char* symbol, int version, std::uint64_t flags) {
  if (answered == nullptr || symbol == nullptr) return answered;
  load_driver();
  seat_all();
  const std::string_view asked(symbol);
  const Seat* found = seat_of(answered);
  const Governed* governed = found == nullptr ? nullptr : found->governed.load(std::memory_order_acquire);
  if (governed != nullptr && is_variant_of(governed->name, asked)) return governed->hook;
  // A name of kind pass keeps its pointer, even if it shares an implementation with a governed function.
  if (governed != nullptr && abi::find_cuda(asked) == nullptr) return governed->hook;
  return by_name(answered, symbol, version, flags);
}

}  // namespace
}  // namespace headgate::limiter

using namespace headgate::abi;
using headgate::limiter::driver;
using headgate::limiter::real;
using headgate::limiter::swap_pointer;

HEADGATE_HOOK CUresult cuGetProcAddress(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags) {
  auto* function = real(driver.cuGetProcAddress);
  if (function == nullptr) return CUDA_ERROR_NOT_FOUND;
  const CUresult result = function(symbol, pfn, cudaVersion, flags);
  if (result == CUDA_SUCCESS && pfn != nullptr) *pfn = swap_pointer(*pfn, symbol, cudaVersion, flags);
  return result;
}

HEADGATE_HOOK CUresult cuGetProcAddress_v2(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags,
                                           CUdriverProcAddressQueryResult* symbolStatus) {
  auto* function = real(driver.cuGetProcAddress_v2);
  if (function == nullptr) return CUDA_ERROR_NOT_FOUND;
  const CUresult result = function(symbol, pfn, cudaVersion, flags, symbolStatus);
  if (result == CUDA_SUCCESS && pfn != nullptr) *pfn = swap_pointer(*pfn, symbol, cudaVersion, flags);
  return result;
}
