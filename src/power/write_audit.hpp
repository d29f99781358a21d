// Which sentences of writes become events: each first one at once; repeated settings of the same control of a GPU by
// the same caller one sentence a second, which counts them. Pure.
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
  // What to tell now of this command, which may be nothing: a read, or one of a row of settings.
  [[nodiscard]] std::optional<AuditEntry> look(const Executed& executed, std::uint64_t now_ns);
  // Of the rows whose second is over.
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
