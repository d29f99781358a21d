// What must outlive a daemon of ours that is killed: which control daemons it started, and for whom. Kept in one file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "mps/control_daemon.hpp"
#include "mps/places.hpp"

namespace headgate::mps {

// A process for which a group's daemon runs: a `headgate run`, or a program in a share.
struct Holder {
  ProcessMark process;
  std::string share;
  bool is_program = false;  // else a command that waits for one

  friend bool operator==(const Holder&, const Holder&) = default;
};

struct GroupNote {
  GroupKey key;
  ProcessMark daemon;  // pid 0: it was about to be started
  Settings settings;
  std::vector<Holder> holders;

  friend bool operator==(const GroupNote&, const GroupNote&) = default;
};

[[nodiscard]] std::string book_json(const std::vector<GroupNote>& groups);
// Errors: failed, with what is wrong.
[[nodiscard]] Result<std::vector<GroupNote>> parse_book(std::string_view json);

// Nothing where there is no file. Errors: of reading, and of parse_book().
[[nodiscard]] Result<std::vector<GroupNote>> load_book(const std::string& path);
// Replaces the file as a whole: a kill of ours leaves the old one or the new one. Errors: of writing.
[[nodiscard]] Result<void> save_book(const std::string& path, const std::vector<GroupNote>& groups);

}  // namespace headgate::mps
