#include "guest/limiter/session/before_init.hpp"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>

#include "guest/bare/keep_errno.hpp"
#include "guest/bare/text.hpp"
#include "guest/grant/numbering.hpp"
#include "guest/limiter/session/environment_grant.hpp"
#include "guest/limiter/session/membership.hpp"

namespace headgate::limiter {
namespace {

// Lists the UUIDs of a share found by its directory, comma-separated.
bool list_shown(std::span<char> out) {
  if (session.membership.load(std::memory_order_acquire) != Membership::member) return false;
  bare::Text text(out);
  for (std::uint32_t i = 0; i < session.shown_count; ++i)
    text.add(i == 0 ? "" : ",").add(session.held.devices[session.shown[i]].uuid);
  return text.size() != 0 && !text.full();
}

// Not inlined, and called one after the other: some threads have small stacks.
[[gnu::noinline]] void limit_to_share(const char* visible, const char* gpus) {
  char limited[1024];
  if (grant::number_by_share(visible, gpus, limited) || grant::cut_to_share(visible, gpus, limited))
    ::setenv("CUDA_VISIBLE_DEVICES", limited, 1);
}
[[gnu::noinline]] void spell(const char* gpus) {
  char spelled[1024];
  if (grant::spell_as_share(variable("CUDA_VISIBLE_DEVICES"), gpus, spelled))
    ::setenv("CUDA_VISIBLE_DEVICES", spelled, 1);
}

}  // namespace

void number_visible_devices() {
  static std::atomic<bool> done{false};
  if (done.exchange(true, std::memory_order_relaxed)) return;
  const char* gpus = variable("HEADGATE_VISIBLE_GPUS");
  char listed[1024];  // 16 UUIDs
  if (gpus == nullptr || *gpus == '\0') {
    open_session_by_directory();
    if (!list_shown(listed)) return;
    gpus = listed;
  }
  const char* const visible = variable("CUDA_VISIBLE_DEVICES");
  const bare::KeepErrno keep_errno;
  if (visible == nullptr) ::setenv("CUDA_VISIBLE_DEVICES", gpus, 1);
  else if (strcmp(visible, gpus) != 0) limit_to_share(visible, gpus), spell(gpus);
}

}  // namespace headgate::limiter
