// Decides which writes become events: the first at once; repeated settings of a GPU's control by one caller are
// summarised once a second, with a count. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "power/control_queues.hpp"

namespace headgate::power {

struct AuditEntry {
  bool failed = false;
  std::uint32_t gpu = 0;
  Caller caller;
  std::string text;  // "power limit 350 W -> 200 W"
};

class WriteAudit {
 public:
  // Returns the event for this command; nothing for a read or a repeated setting.
  [[nodiscard]] std::optional<AuditEntry> look(const Executed& executed, std::uint64_t now_ns);
  // Returns the summaries that are due.
  [[nodiscard]] std::vector<AuditEntry> due(std::uint64_t now_ns);

 private:
  static constexpr std::uint64_t kWindowNs = 1'000'000'000;
  static constexpr std::size_t kMaxRows = 1024;
  struct Row {
    std::uint64_t began_ns = 0, count = 0;
    std::string from, to;
    Caller caller;
  };
  using Key = std::tuple<std::uint32_t, Operation, std::string>;  // GPU, control, caller
  std::map<Key, Row> rows_;
};

}  // namespace headgate::power
