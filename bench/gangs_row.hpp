// Two shares on the same two GPUs under headgated: kernels on one GPU spin for those on the other.
#pragma once

#include "base/result.hpp"
#include "setting.hpp"
#include "table.hpp"

namespace headgate::bench {

inline constexpr const char* kGangsRow = "two gangs on two GPUs, 10 ms of work a meeting";

// Columns as in the section of turns. Errors: a daemon or a program failed.
[[nodiscard]] Result<Row> gangs_row(const Setting& setting);

}  // namespace headgate::bench
