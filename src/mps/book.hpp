// Records in a file what must survive a killed daemon of ours: the control daemons it started, and their holders.
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

// A process that needs a group's control daemon: a `headgate run`, or a program in a share.
struct Holder {
  ProcessMark process;
  std::string share;
  bool is_program = false;  // else a command that waits for a program

  friend bool operator==(const Holder&, const Holder&) = default;
};

struct GroupNote {
  GroupKey key;
  ProcessMark daemon;  // pid 0: about to be started
  Settings settings;
  std::vector<Holder> holders;

  friend bool operator==(const GroupNote&, const GroupNote&) = default;
};

[[nodiscard]] std::string book_json(const std::vector<GroupNote>& groups);
// Errors: failed, with what is wrong.
[[nodiscard]] Result<std::vector<GroupNote>> parse_book(std::string_view json);

// Returns nothing if the file is missing. Errors: those of reading and of parse_book().
[[nodiscard]] Result<std::vector<GroupNote>> load_book(const std::string& path);
// Replaces the file atomically: after a kill it is the old one or the new one. Errors: those of writing.
[[nodiscard]] Result<void> save_book(const std::string& path, const std::vector<GroupNote>& groups);

}  // namespace headgate::mps
