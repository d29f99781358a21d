// System calls that do not exist: a tracer sees them, the kernel answers ENOSYS, nothing else happens.
#pragma once

namespace headgate::bench {

inline constexpr long kMarkBegin = 1'900'001;
inline constexpr long kMarkEnd = 1'900'002;

}  // namespace headgate::bench
