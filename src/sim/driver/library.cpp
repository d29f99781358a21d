// cuInit, fork handling and exit.
#include "sim/driver/library.hpp"

#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "guest/bare/clock.hpp"
#include "sim/exports.hpp"
#include "sim/mps/wire.hpp"

namespace headgate::sim::driver {

std::atomic<Life> life{Life::fresh};
Library& library() { return forever<Library>(); }

namespace {

std::mutex init_lock;

// A prefix is enough.
bool same_uuid(std::string_view asked, std::string_view uuid) {
  return asked.starts_with("GPU-") && asked.size() <= uuid.size() &&
         ::strncasecmp(asked.data(), uuid.data(), asked.size()) == 0;
}

std::uint32_t device_named(const Profile& profile, std::string_view name) {
  while (name.starts_with(' ')) name.remove_prefix(1);
  while (name.ends_with(' ')) name.remove_suffix(1);
  std::uint32_t found = kNone;
  if (name.starts_with("GPU-")) {
    for (std::uint32_t d = 0; d < profile.count; ++d) {
      if (!same_uuid(name, uuid_text(profile, d).data())) continue;
      if (found != kNone) return kNone;  // the prefix matches two GPUs
      found = d;
    }
    return found;
  }
  if (name.empty() || name.size() > 4 || name.find_first_not_of("0123456789") != std::string_view::npos) return kNone;
  const auto number = static_cast<std::uint32_t>(std::strtoul(std::string(name).c_str(), nullptr, 10));
  return number < profile.count ? number : kNone;
}

// Reads CUDA_VISIBLE_DEVICES as the driver does: up to the first name that is unknown or repeated.
std::vector<std::uint32_t> visible_devices(const Profile& profile) {
  std::vector<std::uint32_t> visible;
  const char* text = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!text) {
    for (std::uint32_t d = 0; d < profile.count; ++d) visible.push_back(d);
    return visible;
  }
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    const std::uint32_t device = device_named(profile, rest.substr(0, comma));
    if (device == kNone) return visible;
    for (const std::uint32_t seen : visible) {
      if (seen == device) return {};
    }
    visible.push_back(device);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  return visible;
}

// Returns the percentage of each GPU's SMs that the process's variable allows. An invalid value is ignored, as an MPS
// server does.
std::uint32_t own_percent() {
  const char* text = std::getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
  char* end = nullptr;
  const unsigned long percent = text == nullptr ? 0 : std::strtoul(text, &end, 10);
  return percent >= 1 && percent <= 100 && *end == 0 ? static_cast<std::uint32_t>(percent) : 100;
}

int mps_connection = -1;  // a client's connection to the control daemon, kept until exit

// Makes the process a client of the MPS control daemon at its pipe directory; `percent` becomes its SM share. Without a
// pipe directory it is no client (0), so one node can run both kinds of program. If no daemon listens, it is no client
// unless the profile has an MPS server. Blocks, as a driver does, while another user's programs use the server.
CUresult join_mps(const Profile& profile, std::uint32_t& percent) {
  const char* pipes = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
  if (pipes == nullptr || *pipes == 0) return CUDA_SUCCESS;
  mps_connection = mps::connect_to(pipes);
  if (mps_connection < 0) {
    if (profile.mps != 0) percent = own_percent();
    return CUDA_SUCCESS;
  }
  mps::Hello hello;
  hello.percent = own_percent();
  mps::Welcome welcome;
  if (::send(mps_connection, &hello, sizeof hello, MSG_NOSIGNAL) < 0 ||
      ::recv(mps_connection, &welcome, sizeof welcome, 0) != static_cast<ssize_t>(sizeof welcome))
    return CUDA_ERROR_MPS_CONNECTION_FAILED;
  if (welcome.answer == mps::Answer::not_ready) return CUDA_ERROR_MPS_SERVER_NOT_READY;
  if (welcome.answer == mps::Answer::full) return CUDA_ERROR_MPS_MAX_CLIENTS_REACHED;
  percent = std::clamp(welcome.percent, 1u, 100u);
  return CUDA_SUCCESS;
}

void leave_mps() {
  if (mps_connection < 0) return;
  ::send(mps_connection, &mps::kGoodbye, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
  ::close(std::exchange(mps_connection, -1));
}

Result<std::unique_ptr<Node>> open_node() {
  const std::string directory = TRY(node_directory());
  auto node = TRY(Node::open(directory));
  TRY(open_faults(directory));
  return node;
}

void at_exit() {
  if (life.exchange(Life::ended) != Life::ready) return;
  library().node->detach();
  leave_mps();
}

void in_child() {
  const Life before = life.load();
  bare::forget_clock_after_fork();
  if (mps_connection >= 0) ::close(std::exchange(mps_connection, -1));
  if (before == Life::ready) library().node->forget_after_fork();
  if (before != Life::fresh) life.store(Life::forked);
}

CUresult say_failed(const Error& error) {
  std::fprintf(stderr, "headgate simulator: %s%s%s\n", error.message.c_str(), error.hint.empty() ? "" : ": ",
               error.hint.c_str());
  return error.code == ErrorCode::no_capacity ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_OPERATING_SYSTEM;
}

CUresult injected() { return static_cast<CUresult>(fault("cuInit")); }

CUresult initialise() {
  auto node = open_node();
  if (!node) return say_failed(node.error());
  // Only now, because the fault rules belong to the node.
  if (const CUresult failed = injected(); failed != CUDA_SUCCESS) return failed;
  std::uint32_t percent = 0;
  if (const CUresult refused = join_mps((*node)->profile(), percent); refused != CUDA_SUCCESS) return refused;
  if (const auto attached = (*node)->attach(percent); !attached) return say_failed(attached.error());
  Library& lib = library();
  lib.visible = visible_devices((*node)->profile());
  if (lib.visible.empty()) return CUDA_ERROR_NO_DEVICE;
  lib.node = std::move(*node);
  own_checkpoint.store(&lib.state().processes[lib.node->process()].checkpoint);
  lib.primary.assign(lib.visible.size(), nullptr);
  lib.primary_uses.assign(lib.visible.size(), 0);
  lib.primary_flags.assign(lib.visible.size(), 0);
  lib.ended_by.assign(lib.visible.size(), CUDA_SUCCESS);
  static bool registered = false;
  if (!registered) {
    std::atexit(at_exit);
    pthread_atfork(nullptr, nullptr, in_child);
    registered = true;
  }
  return CUDA_SUCCESS;
}

}  // namespace
SIM_API CUresult cuInit(unsigned flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard guard(init_lock);
  switch (life.load()) {
    case Life::ready: return injected();
    case Life::forked: return CUDA_ERROR_NOT_INITIALIZED;
    case Life::ended: return CUDA_ERROR_DEINITIALIZED;
    case Life::fresh: break;
  }
  const CUresult result = initialise();
  if (result == CUDA_SUCCESS) life.store(Life::ready, std::memory_order_release);
  return result;
}

int cuda_version() {
  if (life.load(std::memory_order_acquire) == Life::ready) return library().profile().cuda_version;
  static const int before_init = cuda_version_at_load();
  return before_init;
}

SIM_API CUresult cuDriverGetVersion(int* version) {
  if (!version) return CUDA_ERROR_INVALID_VALUE;
  *version = cuda_version();
  return static_cast<CUresult>(fault("cuDriverGetVersion"));
}

}  // namespace headgate::sim::driver
