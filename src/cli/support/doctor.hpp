// headgate doctor: checks what headgate needs, and says how to repair it. Changes nothing.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command_line.hpp"
#include "config/config.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::cli {

enum class Health { ok, warn, fail };

struct Finding {
  Health health = Health::ok;
  std::string what;
  std::string repair;  // empty where nothing is to be done
};

struct Examination {
  std::vector<Finding> findings;
  bool daemon = false, simulated = false;
  std::string level;  // that holds: observe, hook, hook+container, mps, mig
};

[[nodiscard]] std::string findings_text(const std::vector<Finding>& findings, const Voice& voice);
[[nodiscard]] std::string findings_json(const Examination& examination);
// Runs a program in a share of its own, on a simulated node or on the machine's GPU, and says whether the limit held.
using SelfTest = std::function<Finding(bool simulated)>;
[[nodiscard]] Examination examine(const Invocation& invocation, const config::Config& config,
                                  const SelfTest& self_test);

// The way to the node's daemon and what it says of itself. Its snapshot, where it answers.
[[nodiscard]] std::optional<snapshot::Snapshot> examine_daemon(std::vector<Finding>& out);

// A driver library, or a plain list of names, against the table of names.
struct SymbolReport {
  std::string library;
  std::string api;                   // "CUDA" or "NVML", by what it exports
  std::size_t exported = 0;          // functions of that API in the library
  std::vector<std::string> unknown;  // exported, not in the table: they pass the limiter unseen
  std::vector<std::string> missing;  // in the table, not exported: another driver version's
  // Known, passed by the limiter, sounding as if they took memory or launched, and not in ungoverned.def.
  std::vector<std::string> unexplained;

  [[nodiscard]] bool sound() const { return unknown.empty() && unexplained.empty(); }
};
[[nodiscard]] Result<SymbolReport> compare_symbols(const std::string& library);
[[nodiscard]] std::string symbols_text(const std::vector<SymbolReport>& reports, const Voice& voice);
[[nodiscard]] std::string symbols_json(const std::vector<SymbolReport>& reports);

}  // namespace headgate::cli
