// Notifications from other rooms of the limiter to memory/.
#pragma once

namespace headgate::limiter {

// Call after a call that shows the host the progress of streams: memory freed in stream order may now be free.
void memory_observed();
// Call after waiting for streams: pools may have released memory. synchronised: they do at such a call (cuda.h,
// CU_MEMPOOL_ATTR_RELEASE_THRESHOLD), so what they released is given back now.
void memory_waited();
void memory_synchronised();

// Call when a stream's handle may be reused for a stream of another GPU.
void memory_forget_streams();

}  // namespace headgate::limiter
