// Shared memory is a file, DIR/memory/N-G. Each open file of it carries a shared flock. The kernel drops it with the
// last descriptor or mapping of that open file, even in processes that got it by message or fork. A process that gets
// the exclusive lock therefore knows that the memory is unused.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>

#include "sim/message.hpp"
#include "sim/node.hpp"
#include "sim/node_file.hpp"
#include "sim/out_of_the_way.hpp"

namespace headgate::sim {
namespace {

bool locked(int fd, int how) {
  int result;
  do result = ::flock(fd, how);
  while (result != 0 && errno == EINTR);
  return result == 0;
}

}  // namespace

std::string Node::shared_path(std::uint32_t shared) const {
  return message(directory_, "/memory/", shared, "-", state_->shared[shared].generation);
}

UniqueFd Node::create_shared(Engine& engine, std::uint32_t account, std::uint64_t bytes, std::uint64_t file_bytes,
                             std::uint32_t* shared) {
  const std::uint32_t place = engine.share(account, bytes);
  if (place == kNone) return UniqueFd();
  const std::string path = shared_path(place);
  ::mkdir(message(directory_, "/memory").c_str(), 0777);
  ::unlink(path.c_str());  // left by an earlier node
  UniqueFd fd = out_of_the_way(UniqueFd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666)));
  give_to_all_of(message(directory_, "/memory"), fd);
  struct stat status{};
  if (!fd || !locked(fd.get(), LOCK_SH) || ::ftruncate(fd.get(), static_cast<off_t>(file_bytes)) != 0 ||
      ::fstat(fd.get(), &status) != 0) {
    // The account still holds its bytes, which the caller releases.
    engine.unshare(place);
    ::unlink(path.c_str());
    return UniqueFd();
  }
  engine.name_shared(place, status.st_ino);
  *shared = place;
  return fd;
}

UniqueFd Node::open_shared(std::uint32_t shared) {
  UniqueFd fd = out_of_the_way(UniqueFd(::open(shared_path(shared).c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC)));
  if (fd && !locked(fd.get(), LOCK_SH)) fd.reset();
  return fd;
}

std::uint32_t Node::shared_of(int descriptor) const {
  struct stat status{}, directory{};
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) return kNone;
  if (::stat(message(directory_, "/memory").c_str(), &directory) != 0 || directory.st_dev != status.st_dev)
    return kNone;
  for (std::uint32_t m = 0; m < state_->shared_limit; ++m) {
    if (state_->shared[m].used && state_->shared[m].inode == status.st_ino) return m;
  }
  return kNone;
}

void Node::settle_shared(Engine& engine, std::uint32_t shared) {
  if (!state_->shared[shared].used) return;
  const std::string path = shared_path(shared);
  const UniqueFd fd = out_of_the_way(UniqueFd(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC)));
  if (fd && !locked(fd.get(), LOCK_EX | LOCK_NB)) return;
  if (!fd && errno != ENOENT) return;
  ::unlink(path.c_str());
  engine.free_shared(shared);
}

}  // namespace headgate::sim
