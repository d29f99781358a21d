// The rows of the `headgate top` table and their order. Pure.
#pragma once

#include "cli/top/state.hpp"

namespace headgate::cli {

struct TopRow {
  std::string key;    // the same in every snapshot
  std::string share;  // empty: no share, or several
  std::string uuid;   // if the row has one GPU, else empty
  unsigned depth = 0;
  std::string name, owner, gpu, where, level, state;
  std::optional<std::uint64_t> limit_bytes;
  std::uint64_t used_bytes = 0;
  std::optional<double> held_ratio, waited_ratio;
  double guarantee_ratio = 0, ceiling_ratio = 1;
  std::uint64_t refusals = 0, idle_ns = 0;
  std::uint32_t processes = 0;
  bool process = false;
  std::uint32_t pid = 0;       // of a process, for display
  std::uint32_t host_pid = 0;  // for signals; 0: unknown, or known only from its share's page
  int colour = -1;             // index of the share in the snapshot; -1: no share
};

[[nodiscard]] std::vector<TopRow> rows_of(const TopState& state);
// Returns the index of the selected row; 0 if it is not among them.
[[nodiscard]] std::size_t selected_row(const std::vector<TopRow>& rows, const TopState& state);

// Returns the fraction of a GPU's time used outside shares, beside `held` by shares: the driver's figures per process,
// or if it reports none, the rest of the GPU's busy time.
[[nodiscard]] double outside_ratio(const snapshot::Snapshot& picture, const snapshot::Gpu& gpu, double held);

// Returns the fraction of a GPU's time in use, by shares and others; the driver's figure if no share is metered.
[[nodiscard]] std::optional<double> time_ratio(const snapshot::Snapshot& picture, const snapshot::Gpu& gpu);

[[nodiscard]] std::string view_word(TopView view);  // "share"
[[nodiscard]] std::string sort_word(TopSort sort);

}  // namespace headgate::cli
