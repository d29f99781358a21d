// Finds, creates and maps a node directory. A flock on the directory lets one process at a time create or replace a
// node.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "sim/message.hpp"
#include "sim/node.hpp"
#include "sim/node_file.hpp"
#include "sim/out_of_the_way.hpp"

namespace headgate::sim {
namespace {

const char kRemoveIt[] = "end what uses the node and remove the file; the next program makes a new one";
// Where a container has its node, so that one with nothing in its environment finds it too (oci/share_device.hpp).
const char kMountedNode[] = "/run/headgate/simulated-node";
const char kHint[] = "name a directory you may write to in HEADGATE_SIM_DIR";

Result<UniqueFd> open_directory(const std::string& directory, bool create) {
  if (create && ::mkdir(directory.c_str(), 0777) != 0 && errno != EEXIST) {
    return fail_errno(message("cannot make the simulated node ", directory), errno, kHint);
  }
  UniqueFd fd = out_of_the_way(UniqueFd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
  if (!fd && errno == ENOENT) return fail(ErrorCode::unreachable, message("no simulated node at ", directory), kHint);
  if (!fd) return fail_errno(message("cannot open the simulated node ", directory), errno, kHint);
  while (::flock(fd.get(), LOCK_EX) != 0) {
    if (errno != EINTR) return fail_errno(message("cannot lock the simulated node ", directory), errno, kHint);
  }
  return fd;
}

Result<NodeFile*> map_file(int fd, const std::string& path) {
  void* memory = ::mmap(nullptr, sizeof(NodeFile), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return fail_errno(message("cannot map ", path), errno);
  return static_cast<NodeFile*>(memory);
}

Result<void> make_mutex(pthread_mutex_t& mutex) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  const int error = pthread_mutex_init(&mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
  if (error != 0) return fail_errno("cannot make the node's lock", error);
  return {};
}

// The kind of the mutexes that make_mutex() makes.
int mutex_kind() {
  static const int kind = [] {
    pthread_mutex_t mutex;
    return make_mutex(mutex) ? mutex.__data.__kind : 0;
  }();
  return kind;
}

// Reads a field of the profile in the node's file, which is only replaced as a whole. Returns false if there is no file
// of our layout.
bool read_of_profile(int directory_fd, std::size_t offset, void* out, std::size_t bytes) {
  const UniqueFd file(::openat(directory_fd, "node", O_RDONLY | O_CLOEXEC));
  struct {
    std::uint64_t magic;
    std::uint32_t version, reserved;
    std::uint64_t size_bytes;
  } head{};
  const std::size_t at = offsetof(NodeFile, state) + offsetof(State, profile) + offset;
  return file && ::pread(file.get(), &head, sizeof head, 0) == static_cast<ssize_t>(sizeof head) &&
         head.magic == kNodeMagic && head.version == kNodeVersion && head.size_bytes == sizeof(NodeFile) &&
         ::pread(file.get(), out, bytes, static_cast<off_t>(at)) == static_cast<ssize_t>(bytes);
}

// A profile without a seed gets that of the node it replaces in this directory, else a random one. Thus no two
// directories show the same GPUs, and one directory always shows the same ones.
Result<Profile> seeded(const Profile& profile, int directory_fd) {
  Profile made = profile;
  if (made.node_seed != 0) return made;
  if (read_of_profile(directory_fd, offsetof(Profile, node_seed), &made.node_seed, sizeof made.node_seed) &&
      made.node_seed != 0) {
    return made;
  }
  while (made.node_seed == 0) {
    if (::getrandom(&made.node_seed, sizeof made.node_seed, 0) != sizeof made.node_seed && errno != EINTR) {
      return fail_errno("cannot draw a random number for the simulated node", errno);
    }
  }
  return made;
}

// Allocates disk space now for all but queues and histories, so that a full file system is an error here and no SIGBUS
// later.
Result<void> write_node(const std::string& directory, int directory_fd, const Profile& asked) {
  const Profile profile = TRY(seeded(asked, directory_fd));
  const std::string fresh = directory + "/node.new";
  UniqueFd fd =
      out_of_the_way(UniqueFd(::openat(directory_fd, "node.new", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)));
  if (!fd) return fail_errno(message("cannot write ", fresh), errno, kHint);
  if (::ftruncate(fd.get(), sizeof(NodeFile)) != 0) return fail_errno(message("cannot size ", fresh), errno, kHint);
  const std::uint64_t base = offsetof(NodeFile, state);
  int error = ::posix_fallocate(fd.get(), 0, static_cast<off_t>(base + offsetof(State, device_history)));
  const std::uint32_t devices = std::min(profile.count, kMaxDevices);
  if (error == 0) {
    error = ::posix_fallocate(fd.get(), static_cast<off_t>(base + offsetof(State, device_history)),
                              static_cast<off_t>(devices * sizeof(History)));
  }
  if (error != 0) {
    ::unlinkat(directory_fd, "node.new", 0);
    return fail_errno(message("no room for the simulated node in ", directory), error, "it takes 6 MiB to begin with");
  }
  NodeFile* file = TRY(map_file(fd.get(), fresh));
  file->magic = kNodeMagic;
  file->version = kNodeVersion;
  file->size_bytes = sizeof(NodeFile);
  initialise(file->state, profile, clock_ns());
  const auto made = make_mutex(file->mutex);
  ::munmap(file, sizeof(NodeFile));
  if (!made) return made;
  if (::mkdirat(directory_fd, "clients", 0777) != 0 && errno != EEXIST) {
    return fail_errno(message("cannot make ", directory, "/clients"), errno, kHint);
  }
  give_to_all_of(directory + "/clients", fd);
  std::error_code ignored;  // left by an earlier node, and unused
  for (const auto& left : std::filesystem::directory_iterator(directory + "/memory", ignored))
    std::filesystem::remove_all(left.path(), ignored);
  if (::renameat(directory_fd, "node.new", directory_fd, "node") != 0) {
    return fail_errno(message("cannot put ", directory, "/node in place"), errno, kHint);
  }
  return {};
}

// Returns null if there is no node, or one from an earlier boot: its times mean nothing now.
Result<NodeFile*> map_existing(const std::string& directory, int directory_fd, UniqueFd* kept) {
  const std::string path = directory + "/node";
  UniqueFd fd = out_of_the_way(UniqueFd(::openat(directory_fd, "node", O_RDWR | O_CLOEXEC)));
  if (!fd && errno == ENOENT) return nullptr;
  if (!fd) return fail_errno(message("cannot open ", path), errno, kHint);
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) return fail_errno(message("cannot look at ", path), errno);
  std::uint64_t head[3] = {};
  if (::pread(fd.get(), head, sizeof head, 0) != static_cast<ssize_t>(sizeof head) || head[0] != kNodeMagic) {
    return fail(ErrorCode::failed, message(path, " is not a simulated node"),
                message(kRemoveIt, ", or choose another directory"));
  }
  std::uint32_t version = 0;
  std::memcpy(&version, &head[1], sizeof version);
  if (version != kNodeVersion || head[2] != sizeof(NodeFile) ||
      static_cast<std::uint64_t>(status.st_size) != sizeof(NodeFile)) {
    return fail(ErrorCode::failed,
                message(path, " is of layout ", version, " with ", status.st_size,
                        " bytes; this headgate knows layout ", kNodeVersion, " with ", sizeof(NodeFile), " bytes"),
                "use the headgate that made it, or choose another directory");
  }
  NodeFile* file = TRY(map_file(fd.get(), path));
  if (is_damaged(*file)) {
    ::munmap(file, sizeof(NodeFile));
    return fail(ErrorCode::failed, message(path, " is damaged: something else has written into it"), kRemoveIt);
  }
  if (file->state.now_ns > clock_ns() + 1'000'000'000) {
    ::munmap(file, sizeof(NodeFile));
    return nullptr;
  }
  *kept = std::move(fd);
  return file;
}

Result<const Profile*> default_profile() {
  const char* name = std::getenv("HEADGATE_SIM_PROFILE");
  if (!name || !*name) name = "h200";
  const Profile* profile = find_profile(name);
  if (!profile) {
    std::string known;
    for (const Profile& p : built_in_profiles()) known += (known.empty() ? "" : ", ") + std::string(p.name);
    return fail(ErrorCode::usage, message("HEADGATE_SIM_PROFILE=", name, " names no profile"), "accepted: " + known);
  }
  return profile;
}

}  // namespace

bool is_damaged(const NodeFile& file) {
  return file.magic != kNodeMagic || file.version != kNodeVersion || file.mutex.__data.__kind != mutex_kind() ||
         file.journal.used.load(std::memory_order_relaxed) > kJournalBytes;
}

void give_to_all_of(const std::string& directory, const UniqueFd& file) {
  struct stat facts{};
  if (file && ::stat(directory.c_str(), &facts) == 0 && (facts.st_mode & S_IWOTH) != 0) ::fchmod(file.get(), 0666);
}

Result<void> open_to_all(const std::string& directory) {
  const UniqueFd directory_fd = TRY(open_directory(directory, false));
  const auto fail_at = [&](const char* name) {
    return fail_errno(message("cannot open ", directory, name, " to all users"), errno, kHint);
  };
  if (::fchmod(directory_fd.get(), 0755) != 0) return fail_at("");
  for (const char* name : {"clients", "memory"}) {
    if (::mkdirat(directory_fd.get(), name, 0777) != 0 && errno != EEXIST) return fail_at(name);
    const UniqueFd folder(::openat(directory_fd.get(), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    // Not sticky, because a process that finds another dead removes its files.
    if (!folder || ::fchmod(folder.get(), 0777) != 0) return fail_at(name);
  }
  for (const char* name : {"node", "faults"}) {
    const UniqueFd file(::openat(directory_fd.get(), name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (!file || ::fchmod(file.get(), 0666) != 0) return fail_at(name);
  }
  return {};
}

Result<std::string> node_directory() {
  const char* directory = std::getenv("HEADGATE_SIM_DIR");
  if ((!directory || !*directory) && ::access(kMountedNode, F_OK) == 0) return std::string(kMountedNode);
  if (!directory || !*directory) {
    return fail(ErrorCode::usage, "HEADGATE_SIM_DIR is not set: which simulated node?",
                "export HEADGATE_SIM_DIR=DIRECTORY");
  }
  return std::string(directory);
}

int cuda_version_of_node(const std::string& directory) {
  const UniqueFd directory_fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  std::int32_t version = 0;
  if (!directory_fd ||
      !read_of_profile(directory_fd.get(), offsetof(Profile, cuda_version), &version, sizeof version)) {
    return 0;
  }
  return version;
}

Result<std::unique_ptr<Node>> Node::open(const std::string& directory, const Profile* create) {
  const UniqueFd directory_fd = TRY(open_directory(directory, create != nullptr));
  UniqueFd fd;
  NodeFile* file = TRY(map_existing(directory, directory_fd.get(), &fd));
  if (!file) {
    if (!create) return fail(ErrorCode::unreachable, message("no simulated node at ", directory), kHint);
    if (auto made = write_node(directory, directory_fd.get(), *create); !made) return std::unexpected(made.error());
    file = TRY(map_existing(directory, directory_fd.get(), &fd));
    if (!file) return fail(ErrorCode::failed, message("the simulated node ", directory, " vanished"));
  }
  std::unique_ptr<Node> node(new Node);
  node->directory_ = directory;
  node->file_ = file;
  node->state_ = &file->state;
  node->fd_ = std::move(fd);
  node->journal_ = {new FileJournal(file->journal, file->state),
                    [](Journal* journal) { delete static_cast<FileJournal*>(journal); }};
  if (const char* step = std::getenv("HEADGATE_SIM_KILL_STEP")) kill_at_step(std::strtoull(step, nullptr, 10));
  return node;
}

Result<std::unique_ptr<Node>> Node::open(const std::string& directory) {
  return open(directory, TRY(default_profile()));
}

Result<std::unique_ptr<Node>> Node::open_existing(const std::string& directory) { return open(directory, nullptr); }

Result<void> create_node(const std::string& directory, const Profile& profile) {
  const UniqueFd directory_fd = TRY(open_directory(directory, true));
  UniqueFd fd;
  NodeFile* file = TRY(map_existing(directory, directory_fd.get(), &fd));
  if (!file) return write_node(directory, directory_fd.get(), profile);
  const Profile there = file->state.profile;
  ::munmap(file, sizeof(NodeFile));
  Profile asked = profile;
  if (asked.node_seed == 0) asked.node_seed = there.node_seed;
  if (there == asked) return {};
  return fail(ErrorCode::failed,
              message(directory, " is already a node of profile ", there.name, ", not ", profile.name),
              "choose another directory, or empty this one");
}

Result<void> recreate_node(const std::string& directory, const Profile& profile) {
  {
    auto node = Node::open_existing(directory);
    if (node) {
      (*node)->reap();
      for (const Process& process : (*node)->state().processes) {
        if (process.used) {
          return fail(ErrorCode::no_capacity,
                      message("process ", process.pid, " (", process.comm, ") uses the node ", directory),
                      "end it first");
        }
      }
    }
  }
  const UniqueFd directory_fd = TRY(open_directory(directory, true));
  return write_node(directory, directory_fd.get(), profile);
}

}  // namespace headgate::sim
