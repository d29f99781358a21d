#include "sim/ptx_pragma.hpp"

#include <cmath>
#include <cstring>

#include "base/whole_number.hpp"
#include "sim/kernel_faults.hpp"
#include "sim/message.hpp"
#include "sim/ptx_lexer.hpp"

namespace headgate::sim::ptx {
namespace {

constexpr std::string_view kAccepted =
    "accepted: \"headgate.sim.us N\", \"headgate.sim.us paramK\", \"headgate.sim.wait paramK\", \"headgate.sim.set "
    "paramK\", \"headgate.sim.fault NAME\", \"headgate.sim.conditional paramH paramV\", \"headgate.sim.countdown "
    "paramH paramV\", "
    "\"headgate.sim.code N\"";

std::unexpected<Error> refuse(unsigned line, const Entry& entry, std::string_view pragma, std::string_view reason) {
  return fail_at(line,
                 message("entry ", entry.name, ": pragma \"", pragma.substr(0, 80), "\": ", reason, "; ", kAccepted));
}

// Parses microseconds with at most three decimals to ns.
std::optional<std::uint64_t> microseconds(std::string_view text) {
  const std::size_t dot = text.find('.');
  const auto units = whole_number(text.substr(0, dot));
  if (!units || *units > kLongestKernelNs / 1000) return std::nullopt;
  std::uint64_t nanoseconds = 0;
  if (dot != std::string_view::npos) {
    const std::string_view decimals = text.substr(dot + 1);
    const auto fraction = whole_number(decimals);
    if (!fraction || decimals.size() > 3) return std::nullopt;
    nanoseconds = *fraction;
    for (std::size_t i = decimals.size(); i < 3; ++i) nanoseconds *= 10;
  }
  const std::uint64_t total = *units * 1000 + nanoseconds;
  return total <= kLongestKernelNs ? std::optional(total) : std::nullopt;
}

struct Target {
  std::optional<std::uint32_t> parameter;
  std::string reason;
};

Target parameter_of(std::string_view value, const Entry& entry, bool address) {
  if (!value.starts_with("param")) return {{}, "it names no parameter"};
  const auto index = whole_number(value.substr(5));
  if (!index) return {{}, message("'", value, "' is not paramK")};
  if (*index >= entry.parameters.size())
    return {{}, message("the entry has ", entry.parameters.size(), " parameters, counted from 0")};
  const Parameter& parameter = entry.parameters[*index];
  if (parameter.scalar == Scalar::opaque || parameter.size_bytes < 4)
    return {{}, "that parameter is not a number of 4 or 8 bytes"};
  if (address && (parameter.size_bytes != 8 || parameter.scalar == Scalar::floating))
    return {{}, "that parameter is not a 64-bit address"};
  return {static_cast<std::uint32_t>(*index), {}};
}

// Parses the parameters of a kernel that sets a conditional handle: the handle and the value.
std::string apply_condition(std::string_view values, const Entry& entry, bool counts_down, Behaviour& behaviour) {
  const std::size_t blank = values.find(' ');
  if (blank == std::string_view::npos) return "it names no value";
  const Target handle = parameter_of(values.substr(0, blank), entry, true);
  if (!handle.parameter) return handle.reason;
  const Target value = parameter_of(values.substr(blank + 1), entry, false);
  if (!value.parameter) return value.reason;
  if (entry.parameters[*value.parameter].scalar == Scalar::floating) return "that value is not a whole number";
  behaviour.handle_parameter = handle.parameter;
  behaviour.condition_parameter = value.parameter;
  behaviour.counts_down = counts_down;
  return {};
}

template <typename T>
T load(std::span<const std::byte> bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::uint64_t from_microseconds(double us) {
  if (!(us > 0)) return 0;
  const double ns = std::round(us * 1000.0);
  return ns >= static_cast<double>(kLongestKernelNs) ? kLongestKernelNs : static_cast<std::uint64_t>(ns);
}

}  // namespace

Result<void> apply_pragma(std::string_view pragma, const Entry& entry, Behaviour& behaviour, unsigned line) {
  if (!pragma.starts_with("headgate.")) return {};
  const std::size_t blank = pragma.find(' ');
  const std::string_view verb = pragma.substr(0, blank);
  const std::string_view value = blank == std::string_view::npos ? std::string_view{} : pragma.substr(blank + 1);
  if (verb == "headgate.sim.us" && !value.starts_with("param")) {
    behaviour.duration_ns = microseconds(value);
    behaviour.duration_parameter.reset();
    if (!behaviour.duration_ns)
      return refuse(line, entry, pragma,
                    "the microseconds are not a number from 0 to 3600000000 with at most three decimals");
    return {};
  }
  if (verb == "headgate.sim.fault") {
    const KernelFault* fault = kernel_fault(value);
    if (fault == nullptr) return refuse(line, entry, pragma, "no kernel ends like that");
    behaviour.fault_error = fault->error;
    return {};
  }
  if (verb == "headgate.sim.conditional" || verb == "headgate.sim.countdown") {
    const std::string reason = apply_condition(value, entry, verb == "headgate.sim.countdown", behaviour);
    if (!reason.empty()) return refuse(line, entry, pragma, reason);
    return {};
  }
  if (verb == "headgate.sim.code") {
    const auto kib = whole_number(value);
    if (!kib || *kib > 1 << 20) return refuse(line, entry, pragma, "the KiB are not a whole number from 0 to 1048576");
    behaviour.code_bytes = *kib * 1024;
    return {};
  }
  std::optional<std::uint32_t>* slot = nullptr;
  if (verb == "headgate.sim.us") slot = &behaviour.duration_parameter;
  if (verb == "headgate.sim.wait") slot = &behaviour.wait_parameter;
  if (verb == "headgate.sim.set") slot = &behaviour.set_parameter;
  if (slot == nullptr) return refuse(line, entry, pragma, "no such pragma");
  const Target target = parameter_of(value, entry, verb != "headgate.sim.us");
  if (!target.parameter) return refuse(line, entry, pragma, target.reason);
  *slot = target.parameter;
  if (slot == &behaviour.duration_parameter) behaviour.duration_ns.reset();
  return {};
}

void inherit_behaviour(const Behaviour& outer, Behaviour& behaviour) {
  if (!behaviour.duration_ns && !behaviour.duration_parameter) {
    behaviour.duration_ns = outer.duration_ns;
    behaviour.duration_parameter = outer.duration_parameter;
  }
  if (behaviour.fault_error == 0) behaviour.fault_error = outer.fault_error;
  if (!behaviour.wait_parameter) behaviour.wait_parameter = outer.wait_parameter;
  if (!behaviour.set_parameter) behaviour.set_parameter = outer.set_parameter;
  if (behaviour.code_bytes == 0) behaviour.code_bytes = outer.code_bytes;
  if (behaviour.handle_parameter) return;
  behaviour.handle_parameter = outer.handle_parameter;
  behaviour.condition_parameter = outer.condition_parameter;
  behaviour.counts_down = outer.counts_down;
}

std::optional<std::uint64_t> duration_ns(const Entry& entry, std::span<const std::byte> parameters) {
  if (entry.behaviour.duration_ns) return entry.behaviour.duration_ns;
  if (!entry.behaviour.duration_parameter) return std::nullopt;
  const Parameter& from = entry.parameters[*entry.behaviour.duration_parameter];
  if (parameters.size() < from.offset_bytes + from.size_bytes) return std::nullopt;
  const bool wide = from.size_bytes == 8;
  const std::size_t at = from.offset_bytes;
  if (from.scalar == Scalar::floating)
    return from_microseconds(wide ? load<double>(parameters, at) : static_cast<double>(load<float>(parameters, at)));
  std::uint64_t us = wide ? load<std::uint64_t>(parameters, at) : load<std::uint32_t>(parameters, at);
  if (from.scalar == Scalar::signed_integer) {
    const std::int64_t value = wide ? load<std::int64_t>(parameters, at) : load<std::int32_t>(parameters, at);
    us = value > 0 ? static_cast<std::uint64_t>(value) : 0;
  }
  return us >= kLongestKernelNs / 1000 ? kLongestKernelNs : us * 1000;
}

std::optional<std::uint64_t> number_parameter(const Entry& entry, std::uint32_t index,
                                              std::span<const std::byte> parameters) {
  if (index >= entry.parameters.size()) return std::nullopt;
  const Parameter& from = entry.parameters[index];
  if (from.scalar == Scalar::floating || parameters.size() < from.offset_bytes + from.size_bytes) return std::nullopt;
  if (from.size_bytes == 8) return load<std::uint64_t>(parameters, from.offset_bytes);
  return from.size_bytes == 4 ? std::optional<std::uint64_t>(load<std::uint32_t>(parameters, from.offset_bytes))
                              : std::nullopt;
}

std::optional<std::uint64_t> address_parameter(const Entry& entry, std::uint32_t index,
                                               std::span<const std::byte> parameters) {
  const bool wide = index < entry.parameters.size() && entry.parameters[index].size_bytes == 8;
  return wide ? number_parameter(entry, index, parameters) : std::nullopt;
}

}  // namespace headgate::sim::ptx
