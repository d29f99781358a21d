// What other rooms of the limiter tell the memory room.
#pragma once

namespace headgate::limiter {

// After a call that lets the host see how far streams have come: memory that was freed in stream order may be free now.
void memory_observed();
// After one that waited for streams: pools may have released some, too. synchronised: one at which they do (cuda.h,
// CU_MEMPOOL_ATTR_RELEASE_THRESHOLD), so that what they released is given back now.
void memory_waited();
void memory_synchronised();

// A stream's handle may come to name a stream of another GPU.
void memory_forget_streams();

}  // namespace headgate::limiter
