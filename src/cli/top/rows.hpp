// The rows of the table of `headgate top`: what is shown, in which order. Pure.
#pragma once

#include "cli/top/state.hpp"

namespace headgate::cli {

struct TopRow {
  std::string key;    // the same from picture to picture
  std::string share;  // empty: of none, or of several
  std::string uuid;   // of one GPU, else empty
  unsigned depth = 0;
  std::string name, owner, gpu, where, level, state;
  std::optional<std::uint64_t> limit_bytes;
  std::uint64_t used_bytes = 0;
  std::optional<double> held_ratio, waited_ratio;
  double guarantee_ratio = 0, ceiling_ratio = 1;
  std::uint64_t refusals = 0, idle_ns = 0;
  std::uint32_t processes = 0;
  bool process = false;
  std::uint32_t pid = 0;       // of a process, as it is shown
  std::uint32_t host_pid = 0;  // as it can be signalled; 0: not known, or by its share's page alone
  int colour = -1;             // the place of the share in the picture; -1: of none
};

[[nodiscard]] std::vector<TopRow> rows_of(const TopState& state);
// The place of the selected row; 0 where it is not among them.
[[nodiscard]] std::size_t selected_row(const std::vector<TopRow>& rows, const TopState& state);

// Part of a GPU's time that programs in no share have, beside `held` by shares: as the driver says of each, and where
// it does not, what else it saw the GPU work.
[[nodiscard]] double outside_ratio(const snapshot::Snapshot& picture, const snapshot::Gpu& gpu, double held);

// Part of a GPU's time that is used: what shares held and others had; the driver's figure where no share is measured.
[[nodiscard]] std::optional<double> time_ratio(const snapshot::Snapshot& picture, const snapshot::Gpu& gpu);

[[nodiscard]] std::string view_word(TopView view);  // "share"
[[nodiscard]] std::string sort_word(TopSort sort);

}  // namespace headgate::cli
