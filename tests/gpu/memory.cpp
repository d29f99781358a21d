#include <dlfcn.h>

#include <map>
#include <string>

#include "fact.hpp"
#include "guest/abi/names.hpp"

namespace headgate::gpu_facts {

namespace {

Result<std::size_t> free_bytes(const Card& card) {
  std::size_t free = 0, total = 0;
  TRY(check("cuMemGetInfo", card.driver.cuMemGetInfo(&free, &total)));
  return free;
}

// cuda.h: CUmemPool_attribute, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT.
constexpr int kReservedCurrent = 5;
using pool_get_attribute_fn = CUresult(CUmemoryPool, int, void*);

// Converts "cuMemAlloc_v2" to "cuMemAlloc", the name for cuGetProcAddress.
std::string unversioned(std::string_view name) {
  for (const std::string_view suffix : {"_v2", "_v3", "_v4"}) {
    if (name.ends_with(suffix)) {
      return std::string(name.substr(0, name.size() - suffix.size()));
    }
  }
  return std::string(name);
}

}  // namespace

Result<Json> slab_size(const Card& card) {
  // Allocates 512-byte pieces until the card's free memory has changed three times; the distances are the slab size.
  std::vector<CUdeviceptr> pieces;
  std::vector<double> steps;
  std::vector<int> at;
  std::size_t before = TRY(free_bytes(card));
  for (int i = 0; i < 20'000 && steps.size() < 4; ++i) {
    CUdeviceptr piece = 0;
    TRY(check("cuMemAlloc", card.driver.cuMemAlloc(&piece, 512)));
    pieces.push_back(piece);
    const std::size_t now = TRY(free_bytes(card));
    if (now != before) {
      steps.push_back(static_cast<double>(before) - static_cast<double>(now));
      at.push_back(i);
      before = now;
    }
  }
  for (const CUdeviceptr piece : pieces) {
    TRY(check("cuMemFree", card.driver.cuMemFree(piece)));
  }
  return Json{{"free_fell_by_bytes", steps},
              {"at_allocation", at},
              {"bytes_each", 512},
              {"free_after_freeing_bytes", TRY(free_bytes(card))}};
}

Result<Json> pool_growth(const Card& card) {
  const auto default_pool =
      reinterpret_cast<cuDeviceGetDefaultMemPool_t*>(::dlsym(card.driver.library, "cuDeviceGetDefaultMemPool"));
  const auto alloc = reinterpret_cast<cuMemAllocAsync_t*>(::dlsym(card.driver.library, "cuMemAllocAsync"));
  const auto free = reinterpret_cast<cuMemFreeAsync_t*>(::dlsym(card.driver.library, "cuMemFreeAsync"));
  const auto attribute =
      reinterpret_cast<pool_get_attribute_fn*>(::dlsym(card.driver.library, "cuMemPoolGetAttribute"));
  if (default_pool == nullptr || alloc == nullptr || free == nullptr || attribute == nullptr) {
    return fail(ErrorCode::unsupported, "the driver has no memory pools");
  }
  CUmemoryPool pool = nullptr;
  TRY(check("cuDeviceGetDefaultMemPool", default_pool(&pool, 0)));
  Json growth = Json::array();
  std::vector<double> attribute_ns;
  for (const std::size_t bytes :
       {std::size_t{512}, std::size_t{1} << 20, std::size_t{33} << 20, std::size_t{100} << 20}) {
    cuuint64_t before = 0, after = 0;
    CUdeviceptr piece = 0;
    TRY(check("cuMemPoolGetAttribute", attribute(pool, kReservedCurrent, &before)));
    TRY(check("cuMemAllocAsync", alloc(&piece, bytes, card.stream)));
    const std::int64_t from = now_ns();
    TRY(check("cuMemPoolGetAttribute", attribute(pool, kReservedCurrent, &after)));
    attribute_ns.push_back(static_cast<double>(now_ns() - from));
    growth.push_back({{"asked_bytes", bytes}, {"reserved_grew_bytes", after - before}});
    TRY(check("cuMemFreeAsync", free(piece, card.stream)));
    TRY(check("cuStreamSynchronize", card.driver.cuStreamSynchronize(card.stream)));
  }
  return Json{{"growth", growth}, {"attribute_ns", median(attribute_ns)}};
}

Result<Json> symbol_aliases(const Card& card) {
  if (card.driver.cuGetProcAddress == nullptr) {
    return fail(ErrorCode::unsupported, "the driver has no cuGetProcAddress_v2");
  }
  constexpr int kVersion = 13000;
  std::map<void*, std::vector<std::string>> by_exported, by_asked;
  std::vector<std::string> without_symbol, without_answer, differ;
  for (const abi::Name& entry : abi::cuda_names()) {
    if (entry.kind == abi::Kind::data || entry.name.ends_with("_ptsz") || entry.name.ends_with("_ptds")) {
      continue;
    }
    const std::string name(entry.name);
    void* exported = ::dlsym(card.driver.library, name.c_str());
    if (exported != nullptr) {
      by_exported[exported].push_back(name);
    }
    void* asked = nullptr;
    CUdriverProcAddressQueryResult status{};
    const CUresult result =
        card.driver.cuGetProcAddress(unversioned(name).c_str(), &asked, kVersion, CU_GET_PROC_ADDRESS_DEFAULT, &status);
    if (result != CUDA_SUCCESS || asked == nullptr) {
      without_answer.push_back(name);
      continue;
    }
    if (name == unversioned(name)) {
      by_asked[asked].push_back(name);
    }
    Dl_info found{};
    if (::dladdr(asked, &found) == 0 || found.dli_sname == nullptr) {
      without_symbol.push_back(name);
    } else if (found.dli_saddr != asked) {
      differ.push_back(name);
    }
  }
  const auto shared = [](const std::map<void*, std::vector<std::string>>& by_address) {
    Json list = Json::array();
    for (const auto& [address, names] : by_address) {
      if (names.size() > 1) list.push_back(names);
    }
    return list;
  };
  return Json{{"driver_version_asked", kVersion},
              {"exported_names_that_share_an_address", shared(by_exported)},
              {"asked_names_that_share_an_address", shared(by_asked)},
              {"answers_without_an_exported_symbol", without_symbol},
              {"answers_inside_another_symbol", differ},
              {"names_without_an_answer", without_answer}};
}

}  // namespace headgate::gpu_facts
