// Directories and files of shares, opened without trust: owner, kind and permissions are those of the opened file,
// never of a path looked at before. Guest code: only GLIBC <= 2.17, so the stat family goes by system call.
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

// The fault that errno says, about `what`.
PageFault system_fault(const char* what, int os_errno);

// BASE/shares; made where missing if `make`, else no_runtime_directory.
PageFault open_shares(const char* base, bool make, Descriptor& out);

// BASE/gpus, made where missing.
PageFault open_gpus(const char* base, Descriptor& out);

// A share's directory in `shares`; not_found where there is none.
PageFault open_share_directory(int shares, const char* name, Descriptor& out);

// The same by the directory's own path.
PageFault open_share_directory_at(const char* path, Descriptor& out);

// Whether the file kFailPolicyFile in the directory at that path says that the share's fail policy is closed.
bool says_closed(const char* path);

// Whether that open directory has been removed: by its path it is no more, though a mount may still lead to it.
bool is_removed(int directory);

// Of a share directory that was opened by `name` and lacks a page: whether it still bears that name and holds
// something, so that nobody is just removing it. An empty one is removed.
bool is_half_a_share(int shares, const char* name, int directory);

// A regular file of ours, readable by us alone; `bytes` is its length.
PageFault open_page_file(int directory, const char* name, bool writable, Descriptor& out, std::size_t& bytes);

// not_a_file for anything but a regular file.
PageFault regular_file_size(int fd, const char* name, std::size_t& bytes);

// Makes `name` in `directory` with all its `bytes` of space really there, so that a full disk is an error here and not
// a SIGBUS later.
PageFault make_page_file(int directory, const char* name, std::size_t bytes, Descriptor& out);

// What is not yet and what is no longer a share has a name that begins so; scratch_name() makes one.
inline constexpr const char* kBeingMade = ".new-";
inline constexpr const char* kBeingRemoved = ".gone-";
void scratch_name(const char* prefix, char (&out)[48]);
std::uint64_t random_word();

// Removes the two pages, the daemon's socket and the directory `name` in `shares`, or the file of that name.
void remove_directory_tree(int shares, const char* name);

// Removes what killed makers and removers left in BASE/shares or BASE/gpus more than a minute ago.
void sweep_scratch(int directory);

}  // namespace headgate::ledger
