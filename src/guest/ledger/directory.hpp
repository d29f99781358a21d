// Opens directories and files of shares without trust: owner, kind and permissions are checked on the opened file,
// never on a path. Guest code: only GLIBC <= 2.17, so the stat family goes by system call.
#pragma once

#include <cstddef>
#include <cstdint>

#include "guest/ledger/pages.hpp"

namespace headgate::ledger {

// A descriptor that closes itself.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { reset(-1); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  void reset(int fd);
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// Returns the fault for an errno, about `what`.
PageFault system_fault(const char* what, int os_errno);

// Opens BASE/shares; creates it if `make`, else fails with no_runtime_directory if it is missing.
PageFault open_shares(const char* base, bool make, Descriptor& out);

// Opens BASE/gpus; creates it if missing.
PageFault open_gpus(const char* base, Descriptor& out);

// Opens a share's directory in `shares`; not_found if there is none.
PageFault open_share_directory(int shares, const char* name, Descriptor& out);

// The same by the directory's path.
PageFault open_share_directory_at(const char* path, Descriptor& out);

// Returns whether kFailPolicyFile in the directory at that path says that the share's fail policy is closed.
bool says_closed(const char* path);

// Returns whether an open directory has been removed: its path is gone, though a mount may still lead to it.
bool is_removed(int directory);

// For a share directory that was opened by `name` and lacks a page. Returns whether it still has that name and is not
// empty, so no removal is in progress. Removes an empty one.
bool is_half_a_share(int shares, const char* name, int directory);

// Opens a regular file that belongs to us and only we can access; `bytes` is its length.
PageFault open_page_file(int directory, const char* name, bool writable, Descriptor& out, std::size_t& bytes);

// Fails with not_a_file if it is not a regular file.
PageFault regular_file_size(int fd, const char* name, std::size_t& bytes);

// Creates `name` in `directory` and allocates all `bytes`, so that a full disk is an error here and not a SIGBUS later.
PageFault make_page_file(int directory, const char* name, std::size_t bytes, Descriptor& out);

// Prefixes of shares being made or removed; scratch_name() makes such a name.
inline constexpr const char* kBeingMade = ".new-";
inline constexpr const char* kBeingRemoved = ".gone-";
void scratch_name(const char* prefix, char (&out)[48]);
std::uint64_t random_word();

// Removes a share's files and its directory `name` in `shares`, or the file of that name.
void remove_directory_tree(int shares, const char* name);

// Removes what killed makers and removers left in BASE/shares or BASE/gpus more than a minute ago.
void sweep_scratch(int directory);

}  // namespace headgate::ledger
