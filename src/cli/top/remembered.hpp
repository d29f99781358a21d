// The order of rows that the user of `headgate top` chose last. It is kept in $XDG_CONFIG_HOME/headgate/top, by default
// ~/.config/headgate/top.
#pragma once

#include <optional>

#include "cli/top/state.hpp"

namespace headgate::cli {

struct TopOrder {
  TopSort sort = TopSort::compute;
  bool reverse = false;
  friend bool operator==(const TopOrder&, const TopOrder&) = default;
};

// Returns nothing if there is no such file, or if it holds anything else.
[[nodiscard]] std::optional<TopOrder> remembered_order();
// Makes the directory with mode 0700. Does nothing if it or the file cannot be written, or belongs to another user.
void remember_order(const TopOrder& order);

}  // namespace headgate::cli
