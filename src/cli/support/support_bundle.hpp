// The parts of a support bundle: facts of the machine, the removal of secrets and of names of people, machines and
// programs, and the archive.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "http/endpoint.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::cli {

// Replaces each name with a word such as user-3f9a1c07, the same at every occurrence. The word is random instead of a
// hash, so that names cannot be found by trying candidates. Not thread-safe.
class Redactor {
 public:
  // Without `names`, removes only secrets.
  explicit Redactor(bool names) : names_(names) {}

  // Hides the name from now on, wherever it is a separate word. `kind`: "user", "host", "command", "place". Ignores
  // empty names, numbers and names that every system has.
  void hide(const std::string& kind, const std::string& name);
  // Calls hide() for the JSON fields "user", "owner", "command" and "where".
  void learn(std::string_view json);
  // Hides the text wherever it occurs, even without `names`.
  void hide_secret(const std::string& secret);

  // Redacts free text, including paths outside system directories.
  [[nodiscard]] std::string text(std::string_view text);
  // Redacts JSON values; keys and the words that programs compare stay. Invalid JSON is treated as free text.
  [[nodiscard]] std::string json(std::string_view json);
  // Redacts label values in Prometheus text.
  [[nodiscard]] std::string metrics(std::string_view page);

 private:
  [[nodiscard]] std::string word_for(const std::string& kind, const std::string& name);
  [[nodiscard]] std::string without_secrets(std::string_view text) const;
  [[nodiscard]] std::string without_names(std::string_view text) const;
  [[nodiscard]] std::string without_paths(std::string_view text);
  [[nodiscard]] std::string place(const std::string& where);
  [[nodiscard]] std::string of_process(const std::string& text, std::uint64_t pid);
  void walk(nlohmann::ordered_json& value, const std::string& key);
  void gather(const nlohmann::ordered_json& value);

  const bool names_;
  std::map<std::string, std::string> words_;  // name to word
  std::vector<std::string> hidden_;           // names to search free text for, longest first
  std::vector<std::string> secrets_;
};

struct ArchiveFile {
  std::string name;  // without directories
  std::string content;
};

// Checks in advance: the file must not exist, and the tools must be installed.
[[nodiscard]] Result<void> may_write_archive(const std::string& path);

// Writes `path` (0600), which must not exist, with `files` inside the folder `folder`. Removes it if it cannot be
// completed. Errors: usage (exists), denied, no_capacity (disk full), failed, unsupported (no tar or gzip).
[[nodiscard]] Result<void> write_archive(const std::string& path, const std::string& folder,
                                         const std::vector<ArchiveFile>& files);

// What remote support needs, for one archive.
struct Bundle {
  std::vector<ArchiveFile> files;
  std::vector<std::string> about;  // a description of each file
  std::vector<std::string> lacks;  // what is missing, and why
};

// Redacts each file by the type in its name: .json, .prom (metrics), or free text.
void redact(Bundle& bundle, Redactor& redactor);

// Returns kernel, distribution, CPUs and memory, without the host name.
[[nodiscard]] std::string system_facts();
// Returns facts of the driver's kernel module and device nodes; empty if the module is not loaded.
[[nodiscard]] std::string driver_facts();
// Returns systemd's status of headgated's unit; empty if systemd is not running or does not know the unit.
[[nodiscard]] std::string unit_facts();
// Returns the resource limits of the process that listens at the daemon's Unix socket; empty if they cannot be read.
[[nodiscard]] std::string daemon_limits(const http::Endpoint& daemon);

// Returns the names of ordinary users, of users that the snapshot and events mention by UID, and of the current user.
[[nodiscard]] std::vector<std::string> user_names(const snapshot::Snapshot& snapshot,
                                                  const std::vector<snapshot::Event>& events);
// Returns the host name as the kernel and the snapshot report it, in full and up to the first dot, and its domain.
[[nodiscard]] std::vector<std::string> host_names(const snapshot::Snapshot& snapshot);

}  // namespace headgate::cli
