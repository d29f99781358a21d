#include "sim/driver/memory/mappings.hpp"

#include <sys/mman.h>
#include <map>

namespace headgate::sim::driver {
namespace {

// By base.
std::map<std::uint64_t, Mapping>& mappings() { return forever<std::map<std::uint64_t, Mapping>>(); }

}  // namespace

void put_mapping(const Mapping& mapping) {
  mappings()[mapping.base] = mapping;
  ++find_physical(mapping.handle)->mappings;
}

Mapping* find_mapping(std::uint64_t address) {
  auto it = mappings().upper_bound(address);
  if (it == mappings().begin()) return nullptr;
  --it;
  return address - it->second.base < it->second.bytes ? &it->second : nullptr;
}

bool any_mapping_in(std::uint64_t address, std::uint64_t bytes) {
  const auto next = mappings().lower_bound(address);
  return find_mapping(address) != nullptr || (next != mappings().end() && next->first - address < bytes);
}

bool whole_mappings(std::uint64_t address, std::uint64_t bytes, std::vector<Mapping*>* out) {
  if (bytes == 0) return false;
  for (std::uint64_t done = 0; done < bytes;) {
    Mapping* mapping = find_mapping(address + done);
    if (!mapping || mapping->kind != MappingKind::reserved || mapping->base != address + done ||
        mapping->bytes > bytes - done) {
      return false;
    }
    out->push_back(mapping);
    done += mapping->bytes;
  }
  return true;
}

void take_mapping(std::uint64_t base) {
  const auto found = mappings().find(base);
  const std::uint64_t handle = found->second.handle;
  mappings().erase(found);
  if (Physical* memory = find_physical(handle)) --memory->mappings;
}

Mapping* find_opened(std::uint64_t handle, const Context* context) {
  for (auto& [base, mapping] : mappings()) {
    if (mapping.kind == MappingKind::ipc && mapping.handle == handle && mapping.context == context) return &mapping;
  }
  return nullptr;
}

bool find_mapped(std::uint64_t address, Allocation* out) {
  const std::lock_guard guard(physical_lock());
  const Mapping* mapping = find_mapping(address);
  if (!mapping) return false;
  if (out) *out = {.base = mapping->base, .bytes = mapping->bytes, .context = mapping->context};
  return true;
}

// To a copy, adjacent mappings are one range. Each must be accessible.
bool is_mapped_address(std::uint64_t address, std::uint64_t bytes) {
  const std::lock_guard guard(physical_lock());
  for (std::uint64_t done = 0;;) {
    const Mapping* mapping = find_mapping(address + done);
    if (!mapping || mapping->readers == 0) return false;
    const std::uint64_t rest = mapping->base + mapping->bytes - (address + done);
    if (bytes - done <= rest) return true;
    done += rest;
  }
}

bool reaches(const Allocation& found, std::uint64_t address, std::uint64_t bytes) {
  if (find_mapped(address, nullptr)) return is_mapped_address(address, bytes);
  return bytes <= found.base + found.bytes - address;
}

std::uint64_t shared_key(std::uint64_t address) {
  const std::lock_guard guard(physical_lock());
  const Mapping* mapping = find_mapping(address);
  if (!mapping) return exported_key(address);
  const Physical* memory = find_physical(mapping->handle);
  if (!memory || memory->shared == kNone) return 0;
  return shared_flag_key(memory->shared, mapping->from + address - mapping->base);
}

int mapped_ordinal(std::uint64_t address) {
  const std::lock_guard guard(physical_lock());
  const Mapping* mapping = find_mapping(address);
  const Physical* memory = mapping ? find_physical(mapping->handle) : nullptr;
  return memory ? ordinal_of(memory->node_device) : -2;
}

void unmap_whole(const Mapping& mapping) {
  take_mapping(mapping.base);
  ::munmap(reinterpret_cast<void*>(mapping.base), mapping.bytes);
  if (Physical* memory = find_physical(mapping.handle); memory && mapping.kind == MappingKind::ipc)
    --memory->references;
  drop_if_unused(mapping.handle);
}

CUresult free_external(std::uint64_t address) {
  wait_before_unmapping();
  const std::lock_guard guard(physical_lock());
  const Mapping* mapping = find_mapping(address);
  if (!mapping || mapping->base + mapping->offset != address || mapping->kind != MappingKind::external)
    return CUDA_ERROR_INVALID_VALUE;
  unmap_whole(Mapping(*mapping));
  return CUDA_SUCCESS;
}

void forget_mappings_of(const Context* context) {
  const std::lock_guard guard(physical_lock());
  std::vector<Mapping> gone;
  for (const auto& [base, mapping] : mappings()) {
    if (mapping.context == context && mapping.kind != MappingKind::reserved) gone.push_back(mapping);
  }
  for (const Mapping& mapping : gone) unmap_whole(mapping);
}

}  // namespace headgate::sim::driver
