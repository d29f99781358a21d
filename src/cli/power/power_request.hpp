// The options of commands that set power, clocks and modes, and the daemon's request body for them. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "cli/share/order.hpp"

namespace headgate::cli {

struct PowerOptions {
  std::vector<std::string> values;  // power set: as written
  std::string profile;              // power apply
  std::string gpu;                  // which GPUs; "" for the only one
  Order order;
  bool dry_run = false;
};

void add_power_set(Options& options, PowerOptions& own);
void add_power_apply(Options& options, PowerOptions& own);
void add_power_reset(Options& options, PowerOptions& own);
// Of a command below `gpu` that sets one thing.
void add_gpu_setting(Options& options, PowerOptions& own, const OrderOption& value);

// Returns the body of `power set`, `apply` or `reset` for these GPUs. The daemon checks the ranges. Errors: usage,
// quoting what was written and naming what is accepted.
[[nodiscard]] Result<std::string> power_body(const std::string& command, const PowerOptions& own,
                                             const std::vector<std::string>& uuids);

// Returns true if the settings end by themselves: with a time, a process, or without a confirmation.
[[nodiscard]] bool wants_lease(const Order& order);

}  // namespace headgate::cli
