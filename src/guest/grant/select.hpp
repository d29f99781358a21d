// Selects GPUs: "0", "0,2-3", "GPU-9c" (a unique prefix), "0000:1b:00.0", "all", "auto". Recognises MIG forms and
// reports them. Pure, allocation-free; the caller passes the GPUs in PCI order, as nvidia-smi numbers them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace headgate::grant {

inline constexpr std::uint32_t kMaxSelected = 16;

struct Candidate {
  std::string_view uuid;         // "GPU-..."
  std::string_view pci_bus_id;   // "00000000:1B:00.0" or "0000:1b:00.0"; may be empty if unknown
  std::uint64_t free_bytes = 0;  // for `auto`
};

enum class SelectFault : std::uint8_t {
  none,
  empty,
  junk,       // not an accepted form
  unknown,    // valid, but there is no such GPU
  ambiguous,  // a prefix of several UUIDs
  repeated,   // the same GPU twice
  mig,        // a MIG slice; not supported here
  backwards,  // a range such as 3-1
  too_many,   // more than kMaxSelected
};

struct Selection {
  std::uint32_t count = 0;
  std::uint8_t index[kMaxSelected] = {};  // into the candidates, in the order written
  SelectFault fault = SelectFault::none;
  std::string_view token;  // the part that was not accepted

  explicit operator bool() const { return fault == SelectFault::none; }
};

// `auto` selects the GPU with the most free memory; among equals, the lowest index.
[[nodiscard]] Selection select(std::string_view text, std::span<const Candidate> gpus);

[[nodiscard]] std::string_view accepted_selectors();
[[nodiscard]] std::string_view describe(SelectFault fault);

}  // namespace headgate::grant
