// `headgate top`: the live view.
#pragma once

#include <optional>
#include <string>

#include "cli/command.hpp"
#include "cli/top/state.hpp"

namespace headgate::cli {

struct TopOptions {
  bool once = false, readonly = false;
  std::string by = "share";  // share, gpu, user, process
};

void add_top_options(Options& options, TopOptions& own);

// The order of rows that the user chose last. It is kept in $XDG_CONFIG_HOME/headgate/top, by default
// ~/.config/headgate/top.
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
