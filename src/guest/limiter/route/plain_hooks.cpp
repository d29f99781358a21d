// A forwarding hook for every governed function of the tables. Weak: a room that handles a function defines it again,
// and that definition takes precedence.
#include "guest/limiter/route/forward.hpp"
#include "guest/limiter/route/governed.hpp"

using namespace headgate::abi;
using headgate::limiter::driver;
using headgate::limiter::kMissing;
using headgate::limiter::nvml;
using headgate::limiter::real;

#define HEADGATE_WEAK_HOOK extern "C" __attribute__((weak, visibility("default")))

#define CU_FN(name, kind, since, parameters, arguments)                  \
  HEADGATE_GOVERNED_##kind(HEADGATE_WEAK_HOOK CUresult name parameters { \
    name##_t* theirs = real(driver.name);                                \
    return theirs == nullptr ? kMissing<CUresult> : theirs arguments;    \
  })
#include "guest/abi/cuda_table.def"

#define NVML_FN(name, kind, parameters, arguments)                           \
  HEADGATE_GOVERNED_##kind(HEADGATE_WEAK_HOOK nvmlReturn_t name parameters { \
    name##_t* theirs = real(nvml.name);                                      \
    return theirs == nullptr ? kMissing<nvmlReturn_t> : theirs arguments;    \
  })
#include "guest/abi/nvml_table.def"
