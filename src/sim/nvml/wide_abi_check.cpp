// Compares the simulator's declarations of NVML with the real nvml.h (11.8 or newer). Built only where that is
// installed; generates no code.
#define NVML_NO_UNVERSIONED_FUNC_DEFS  // else nvml.h maps functions to their newest versions by macros
#include <nvml.h>

#include <cstddef>
#undef nvmlEventTypeXidCriticalError

#include "sim/nvml/wide.hpp"

namespace ours = headgate::abi;

namespace {

#define SAME_SIZE(name) static_assert(sizeof(::name) == sizeof(ours::name), #name " differs from nvml.h")
#define SAME_PLACE(name, member) \
  static_assert(offsetof(::name, member) == offsetof(ours::name, member), #name "::" #member " differs from nvml.h")
SAME_SIZE(nvmlSample_t);
SAME_SIZE(nvmlFieldValue_t);
SAME_PLACE(nvmlFieldValue_t, value);
SAME_SIZE(nvmlViolationTime_t);
SAME_SIZE(nvmlRowRemapperHistogramValues_t);
SAME_PLACE(nvmlRowRemapperHistogramValues_t, none);
SAME_SIZE(nvmlFBCStats_t);
SAME_SIZE(nvmlDeviceAttributes_t);
SAME_PLACE(nvmlDeviceAttributes_t, memorySizeMB);
SAME_SIZE(nvmlAccountingStats_t);
SAME_PLACE(nvmlAccountingStats_t, isRunning);
SAME_SIZE(nvmlEventData_t);
SAME_SIZE(nvmlGpmMetric_t);
SAME_SIZE(nvmlGpmMetricsGet_t);
SAME_PLACE(nvmlGpmMetricsGet_t, metrics);
SAME_SIZE(nvmlGpmSupport_t);

}  // namespace
