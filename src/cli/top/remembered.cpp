#include "cli/top/remembered.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "base/whole_file.hpp"
#include "cli/top/rows.hpp"
#include "install/paths.hpp"

namespace headgate::cli {
namespace {

// Empty if the environment names no directory.
std::string user_config_directory() {
  const std::string config = install::environment("XDG_CONFIG_HOME"), home = install::environment("HOME");
  if (config.starts_with('/')) return config + "/headgate";
  return home.starts_with('/') ? home + "/.config/headgate" : "";
}

std::string order_text(const TopOrder& order) {
  return sort_word(order.sort) + (order.reverse ? " reversed" : "") + "\n";
}

}  // namespace

std::optional<TopOrder> remembered_order() {
  constexpr std::size_t kMost = 64;
  const std::string directory = user_config_directory();
  const auto file = directory.empty() ? fail(ErrorCode::not_found, "") : read_whole_file(directory + "/top", kMost);
  if (!file) return std::nullopt;
  for (const bool reverse : {false, true}) {
    for (int sort = 0; sort <= static_cast<int>(TopSort::state); ++sort) {
      const TopOrder order{static_cast<TopSort>(sort), reverse};
      if (file->text == order_text(order)) return order;
    }
  }
  return std::nullopt;
}

void remember_order(const TopOrder& order) {
  const std::string directory = user_config_directory();
  if (directory.empty()) return;
  // Root may have another user's HOME; what it made there, that user could not change.
  std::filesystem::path there = directory;
  struct stat above{};
  while (::stat(there.c_str(), &above) != 0 && there.has_relative_path()) there = there.parent_path();
  if (above.st_uid != ::geteuid()) return;
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(directory).parent_path(), ignored);
  ::mkdir(directory.c_str(), 0700);
  struct stat facts{};
  if (::lstat(directory.c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode) || facts.st_uid != ::geteuid()) return;
  // A lost order is no reason to complain.
  (void)replace_whole_file(directory + "/top", order_text(order), {.durable = false});
}

}  // namespace headgate::cli
