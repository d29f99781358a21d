// System calls that do not exist: a tracer sees them, the kernel answers ENOSYS, nothing else happens.
#pragma once

namespace headgate::bench {

inline constexpr long kMarkBegin = 1'900'001;  // launches follow
inline constexpr long kMarkWait = 1'900'003;   // the wait for them follows
inline constexpr long kMarkEnd = 1'900'002;

}  // namespace headgate::bench
