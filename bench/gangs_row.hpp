// Two shares on the same two GPUs whose kernels on one spin for those on the other, under headgated.
#pragma once

#include "base/result.hpp"
#include "setting.hpp"
#include "table.hpp"

namespace headgate::bench {

inline constexpr const char* kGangsRow = "two gangs on two GPUs, 10 ms of work a meeting";

// Columns as of the section of turns. Errors: a daemon or a program that did not end well.
[[nodiscard]] Result<Row> gangs_row(const Setting& setting);

}  // namespace headgate::bench
