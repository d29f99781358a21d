#include "guest/limiter/session/visible.hpp"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>

#include "guest/grant/numbering.hpp"
#include "guest/limiter/session/wish.hpp"

namespace headgate::limiter {

void number_visible_devices() {
  static std::atomic<bool> done{false};
  if (done.exchange(true, std::memory_order_relaxed)) return;
  const char* const gpus = variable("HEADGATE_VISIBLE_GPUS");
  if (gpus == nullptr || *gpus == '\0') return;
  const char* const visible = variable("CUDA_VISIBLE_DEVICES");
  const int saved = errno;
  char numbered[1024];  // 16 UUIDs
  if (visible == nullptr) ::setenv("CUDA_VISIBLE_DEVICES", gpus, 1);
  else if (strcmp(visible, gpus) != 0 &&
           (grant::number_by_share(visible, gpus, numbered) || grant::spell_as_share(visible, gpus, numbered)))
    ::setenv("CUDA_VISIBLE_DEVICES", numbered, 1);
  errno = saved;
}

}  // namespace headgate::limiter
