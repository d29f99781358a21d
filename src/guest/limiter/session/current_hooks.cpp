// Calls that change their thread's current context.
#include "guest/limiter/route/forward.hpp"
#include "guest/limiter/session/current.hpp"

using namespace headgate::abi;
using namespace headgate::limiter;

namespace {

CUresult changing(CUresult result) {
  current_changed();
  return result;
}

}  // namespace

HEADGATE_HOOK CUresult cuCtxSetCurrent(CUcontext ctx) { return changing(forward(driver.cuCtxSetCurrent, ctx)); }
HEADGATE_HOOK CUresult cuCtxPushCurrent(CUcontext ctx) { return changing(forward(driver.cuCtxPushCurrent, ctx)); }
HEADGATE_HOOK CUresult cuCtxPushCurrent_v2(CUcontext ctx) { return changing(forward(driver.cuCtxPushCurrent_v2, ctx)); }
HEADGATE_HOOK CUresult cuCtxPopCurrent(CUcontext* pctx) { return changing(forward(driver.cuCtxPopCurrent, pctx)); }
HEADGATE_HOOK CUresult cuCtxPopCurrent_v2(CUcontext* pctx) {
  return changing(forward(driver.cuCtxPopCurrent_v2, pctx));
}
