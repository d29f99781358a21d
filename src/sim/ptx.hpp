// Parses PTX text as far as needed to launch its entries: names, parameters, sizes, and pragmas for the simulator.
//
// Grammar facts: PTX ISA 8.x (directives .version .target .entry .func .param .pragma .reqntid .maxntid .shared .local
// .global .const). Instructions are skipped: the simulated GPU does not execute them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace headgate::sim::ptx {

enum class ImageKind { ptx, elf, fatbin, fatbin_wrapper, empty, unknown };

// Returns the kind of an image from its first bytes. Reads no byte after the first mismatch, so a C string of any
// length is safe.
[[nodiscard]] ImageKind image_kind(const void* image);
// Returns a name for messages, such as "a cubin (ELF)".
[[nodiscard]] std::string_view words_for(ImageKind kind);

enum class Scalar : std::uint8_t { unsigned_integer, signed_integer, floating, opaque };

struct Parameter {
  std::string name;
  Scalar scalar = Scalar::opaque;
  std::uint32_t offset_bytes = 0;
  std::uint32_t size_bytes = 0;
  std::uint32_t alignment_bytes = 1;

  friend bool operator==(const Parameter&, const Parameter&) = default;
};

// What the entry's headgate.sim pragmas ask for. A kernel without a duration takes waves of blocks over the profile's
// SMs.
struct Behaviour {
  std::optional<std::uint64_t> duration_ns;  // "headgate.sim.us N", N in microseconds with at most three decimals
  std::optional<std::uint32_t> duration_parameter;  // "headgate.sim.us paramK": parameter K holds microseconds
  std::optional<std::uint32_t> wait_parameter;  // "headgate.sim.wait paramK": spins until the word at paramK is not 0
  std::optional<std::uint32_t> set_parameter;   // "headgate.sim.set paramK": when it ends, stores 1 in that word
  // In a graph: sets the conditional handle in parameter H to the value of parameter V. If counts_down is true,
  // subtracts the number of times that this node has run in this launch; the result is at least 0.
  std::optional<std::uint32_t> handle_parameter, condition_parameter;  // "headgate.sim.conditional paramH paramV"
  std::uint64_t code_bytes = 0;   // "headgate.sim.code N": its code takes N KiB of device memory, N at most 2^20
  bool counts_down = false;       // "headgate.sim.countdown paramH paramV"
  std::uint32_t fault_error = 0;  // "headgate.sim.fault NAME" (kernel_faults.hpp): ends its context with that error

  friend bool operator==(const Behaviour&, const Behaviour&) = default;
};

struct Entry {
  std::string name;
  std::vector<Parameter> parameters;
  std::uint32_t parameter_bytes = 0;
  std::vector<std::string> pragmas;  // all pragma strings, in order
  Behaviour behaviour;
  std::array<std::uint32_t, 3> required_block{};  // .reqntid; zeros if absent
  std::array<std::uint32_t, 3> maximum_block{};   // .maxntid; zeros if absent
  std::uint32_t shared_bytes = 0;                 // static .shared of the body
  std::uint32_t local_bytes = 0;                  // .local, per thread

  friend bool operator==(const Entry&, const Entry&) = default;
};

struct Global {
  std::string name;
  std::uint64_t size_bytes = 0;
  std::uint32_t alignment_bytes = 1;
  bool constant = false;  // .const instead of .global
  bool external = false;  // .extern: defined by another module

  friend bool operator==(const Global&, const Global&) = default;
};

struct Module {
  unsigned version_major = 0, version_minor = 0;
  std::string target;  // "sm_90"
  unsigned address_bits = 64;
  std::vector<Entry> entries;
  std::vector<Global> globals;

  [[nodiscard]] const Entry* find_entry(std::string_view name) const;
  [[nodiscard]] const Global* find_global(std::string_view name) const;
  friend bool operator==(const Module&, const Module&) = default;
};

// Errors (usage): "line N: reason". Never reads past the view, never recurses.
[[nodiscard]] Result<Module> parse(std::string_view text);

// The same for an argument of cuModuleLoadData. Error unsupported if the image is not PTX; the message says what it is.
[[nodiscard]] Result<Module> parse_image(const void* image);

// Returns the duration of a launch by the entry's pragmas, in ns; nothing if they specify none. `parameters` is the
// packed parameter block. Negative and NaN values count as 0, values above kLongestKernelNs as that.
[[nodiscard]] std::optional<std::uint64_t> duration_ns(const Entry& entry, std::span<const std::byte> parameters);

// Returns the integer in parameter `index`; nothing if the block is too short or the parameter is no integer.
[[nodiscard]] std::optional<std::uint64_t> number_parameter(const Entry& entry, std::uint32_t index,
                                                            std::span<const std::byte> parameters);

// Returns the address in parameter `index`; nothing if the block is too short.
[[nodiscard]] std::optional<std::uint64_t> address_parameter(const Entry& entry, std::uint32_t index,
                                                             std::span<const std::byte> parameters);

inline constexpr std::uint64_t kLongestKernelNs = 3'600'000'000'000;  // an hour
inline constexpr std::uint32_t kMaxParameterBytes = 32764;            // PTX ISA: kernel parameters since 8.1

}  // namespace headgate::sim::ptx
