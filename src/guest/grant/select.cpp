#include "guest/grant/select.hpp"

#include <cstddef>

#include "guest/grant/text.hpp"

namespace headgate::grant {
namespace {

bool is_hex(char c) { return is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'f'); }

// Strips the domain's leading zeros: NVML writes eight digits, lspci and sysfs four.
std::string_view without_zeros(std::string_view bus_id) {
  while (bus_id.size() > 1 && bus_id[0] == '0' && bus_id[1] != ':') bus_id = from(bus_id, 1);
  return bus_id;
}

// Accepts "DOMAIN:BUS:DEVICE.FUNCTION" and "BUS:DEVICE.FUNCTION".
bool is_pci(std::string_view token) {
  const std::size_t dot = position(token, '.');
  if (dot + 2 != token.size()) return false;
  std::size_t colons = 0;
  for (const char c : token) {
    if (c == ':') ++colons;
    else if (c != '.' && !is_hex(c)) return false;
  }
  return colons == 1 || colons == 2;
}

bool same_pci(std::string_view bus_id, std::string_view token) {
  std::size_t colons = 0;
  for (const char c : token) colons += c == ':';
  if (colons == 2) return same_ignoring_case(without_zeros(bus_id), without_zeros(token));
  // Without a domain, domain 0 is meant.
  const std::string_view canonical = without_zeros(bus_id);
  return starts_ignoring_case(canonical, "0:") && same_ignoring_case(from(canonical, 2), token);
}

bool is_mig(std::string_view token) {
  if (starts_ignoring_case(token, "MIG-")) return true;
  std::uint64_t gpu = 0, slice = 0;
  const std::size_t colon = position(token, ':');
  return colon < token.size() && whole_number(first(token, colon), 1000, gpu) &&
         whole_number(from(token, colon + 1), 1000, slice);
}

struct Picker {
  std::span<const Candidate> gpus;
  Selection picked;

  bool refuse(SelectFault fault, std::string_view token) {
    picked.fault = fault;
    picked.token = token;
    return false;
  }

  bool add(std::size_t index, std::string_view token) {
    if (index >= gpus.size()) return refuse(SelectFault::unknown, token);
    for (std::uint32_t i = 0; i < picked.count; ++i) {
      if (picked.index[i] == index) return refuse(SelectFault::repeated, token);
    }
    if (picked.count == kMaxSelected) return refuse(SelectFault::too_many, token);
    picked.index[picked.count++] = static_cast<std::uint8_t>(index);
    return true;
  }

  bool add_all(std::string_view token) {
    if (gpus.empty()) return refuse(SelectFault::unknown, token);
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      if (!add(i, token)) return false;
    }
    return true;
  }

  bool add_most_free(std::string_view token) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < gpus.size(); ++i) {
      if (gpus[i].free_bytes > gpus[best].free_bytes) best = i;
    }
    return add(best, token);
  }

  bool add_pci(std::string_view token) {
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      if (same_pci(gpus[i].pci_bus_id, token)) return add(i, token);
    }
    return refuse(SelectFault::unknown, token);
  }

  bool add_uuid(std::string_view token) {
    std::size_t found = gpus.size();
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      if (!starts_ignoring_case(gpus[i].uuid, token)) continue;
      if (found != gpus.size()) return refuse(SelectFault::ambiguous, token);
      found = i;
    }
    return add(found, token);
  }

  bool add_range(std::string_view token) {
    const std::size_t dash = position(token, '-');
    std::uint64_t low = 0, high = 0;
    if (!whole_number(first(token, dash), 1u << 20, low)) return refuse(SelectFault::junk, token);
    high = low;
    if (dash < token.size() && !whole_number(from(token, dash + 1), 1u << 20, high))
      return refuse(SelectFault::junk, token);
    if (high < low) return refuse(SelectFault::backwards, token);
    if (high >= gpus.size()) return refuse(SelectFault::unknown, token);
    for (std::uint64_t i = low; i <= high; ++i) {
      if (!add(i, token)) return false;
    }
    return true;
  }

  bool add_token(std::string_view token) {
    if (token.empty()) return refuse(SelectFault::empty, token);
    if (same_ignoring_case(token, "all")) return add_all(token);
    if (same_ignoring_case(token, "auto")) return add_most_free(token);
    if (is_mig(token)) return refuse(SelectFault::mig, token);
    if (is_pci(token)) return add_pci(token);
    if (starts_ignoring_case(token, "GPU-") && token.size() > 4) return add_uuid(token);
    if (is_digit(token[0])) return add_range(token);
    return refuse(SelectFault::junk, token);
  }
};

}  // namespace

Selection select(std::string_view text, std::span<const Candidate> gpus) {
  Picker picker{gpus, {}};
  std::string_view rest = trimmed(text);
  for (;;) {
    const std::size_t comma = position(rest, ',');
    if (!picker.add_token(trimmed(first(rest, comma)))) break;
    if (comma == rest.size()) break;
    rest = from(rest, comma + 1);
  }
  return picker.picked;
}

std::string_view accepted_selectors() {
  return "an index (0), a list or range (0,2-3), a UUID or its beginning (GPU-9c2f), a PCI address (0000:1b:00.0), "
         "all, or auto (most free memory)";
}

std::string_view describe(SelectFault fault) {
  switch (fault) {
    case SelectFault::none: return "is accepted";
    case SelectFault::empty: return "is empty";
    case SelectFault::junk: return "is not understood";
    case SelectFault::unknown: return "is not a GPU of this node";
    case SelectFault::ambiguous: return "is the beginning of several GPUs' UUIDs";
    case SelectFault::repeated: return "names a GPU twice";
    case SelectFault::mig: return "is a MIG slice, which headgate does not share out";
    case SelectFault::backwards: return "is a range that runs backwards";
    case SelectFault::too_many: return "names more than 16 GPUs";
  }
  return "is not understood";
}

}  // namespace headgate::grant
