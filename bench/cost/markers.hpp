// Non-existent system calls as marks for a tracer: the kernel returns ENOSYS, and nothing else happens.
#pragma once

namespace headgate::bench {

inline constexpr long kMarkBegin = 1'900'001;  // launches follow
inline constexpr long kMarkWait = 1'900'003;   // the wait for them follows
inline constexpr long kMarkEnd = 1'900'002;

}  // namespace headgate::bench
