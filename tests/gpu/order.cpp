#include <thread>

#include "fact.hpp"

namespace headgate::gpu_facts {

namespace {

// Two kernels that may overlap: the first releases its dependent at once; the second needs its result only at the end.
// Entry and parameters as the busy kernel's; griddepcontrol needs sm_90.
constexpr char kDependentPtx[] = R"(.version 8.0
.target sm_90
.address_size 64

.visible .entry headgate_dependent(.param .f64 headgate_dependent_microseconds)
{
  .pragma "headgate.sim.us param0";
  .reg .pred %p<2>;
  .reg .f64 %fd<3>;
  .reg .b64 %rd<5>;
  griddepcontrol.launch_dependents;
  ld.param.f64 %fd1, [headgate_dependent_microseconds];
  mul.f64 %fd2, %fd1, 0d408F400000000000;
  cvt.rzi.u64.f64 %rd1, %fd2;
  mov.u64 %rd2, %globaltimer;
again:
  mov.u64 %rd3, %globaltimer;
  sub.s64 %rd4, %rd3, %rd2;
  setp.lt.u64 %p1, %rd4, %rd1;
  @%p1 bra again;
  griddepcontrol.wait;
  ret;
}
)";

constexpr double kPairUs = 2000;

Result<void> launch_dependent(const Card& card, CUfunction function) {
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  attribute.value.programmaticStreamSerializationAllowed = 1;
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  config.hStream = card.stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  double us = kPairUs;
  void* parameters[] = {&us};
  return check("cuLaunchKernelEx", card.driver.cuLaunchKernelEx(&config, function, parameters, nullptr));
}

// Returns the time from before the first to after the second, us, optionally with an event recorded in between.
Result<double> pair_us(const Card& card, CUfunction function, bool record_between) {
  CUevent start = nullptr, between = nullptr, end = nullptr;
  for (CUevent* event : {&start, &between, &end}) {
    TRY(check("cuEventCreate", card.driver.cuEventCreate(event, 0)));
  }
  TRY(check("cuEventRecord", card.driver.cuEventRecord(start, card.stream)));
  TRY(launch_dependent(card, function));
  if (record_between) {
    TRY(check("cuEventRecord", card.driver.cuEventRecord(between, card.stream)));
  }
  TRY(launch_dependent(card, function));
  TRY(check("cuEventRecord", card.driver.cuEventRecord(end, card.stream)));
  TRY(check("cuEventSynchronize", card.driver.cuEventSynchronize(end)));
  float milliseconds = 0;
  TRY(check("cuEventElapsedTime", card.driver.cuEventElapsedTime(&milliseconds, start, end)));
  for (const CUevent event : {start, between, end}) {
    card.driver.cuEventDestroy(event);
  }
  return static_cast<double>(milliseconds) * 1e3;
}

const char* mode_name(CUstreamCaptureMode mode) {
  return mode == CU_STREAM_CAPTURE_MODE_RELAXED ? "relaxed" : "global";
}

// Another thread queries an earlier event, in `mode`, while this thread captures in global mode.
Result<Json> query_while_capturing(const Card& card, CUstreamCaptureMode mode) {
  CUevent event = nullptr;
  TRY(check("cuEventCreate", card.driver.cuEventCreate(&event, 0)));
  TRY(check("cuEventRecord", card.driver.cuEventRecord(event, card.stream)));
  TRY(check("cuStreamSynchronize", card.driver.cuStreamSynchronize(card.stream)));
  CUstream captured = nullptr;
  TRY(check("cuStreamCreate", card.driver.cuStreamCreate(&captured, CU_STREAM_NON_BLOCKING)));
  TRY(check("cuStreamBeginCapture", card.driver.cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_GLOBAL)));
  CUresult query = CUDA_ERROR_UNKNOWN;
  std::thread([&] {
    card.driver.cuCtxSetCurrent(card.context);
    CUstreamCaptureMode wanted = mode;
    card.driver.cuThreadExchangeStreamCaptureMode(&wanted);
    query = card.driver.cuEventQuery(event);
  }).join();
  const CUresult launch = launch_busy(card.driver, card.kernel, 1, captured);
  CUgraph graph = nullptr;
  const CUresult end = card.driver.cuStreamEndCapture(captured, &graph);
  if (graph != nullptr && card.driver.cuGraphDestroy != nullptr) {
    card.driver.cuGraphDestroy(graph);
  }
  card.driver.cuStreamDestroy(captured);
  card.driver.cuEventDestroy(event);
  return Json{{"mode_of_the_querying_thread", mode_name(mode)},
              {"query", words_for("cuEventQuery", query)},
              {"launch_into_capture", words_for("cuLaunchKernel", launch)},
              {"end_capture", words_for("cuStreamEndCapture", end)},
              {"capture_survives", end == CUDA_SUCCESS}};
}

}  // namespace

Result<Json> programmatic_launch(const Card& card) {
  if (card.driver.cuLaunchKernelEx == nullptr) {
    return fail(ErrorCode::unsupported, "the driver has no cuLaunchKernelEx");
  }
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  TRY(check("cuModuleLoadData (sm_90)", card.driver.cuModuleLoadData(&module, kDependentPtx)));
  TRY(check("cuModuleGetFunction", card.driver.cuModuleGetFunction(&function, module, "headgate_dependent")));
  (void)TRY(pair_us(card, function, false));  // loads the code
  const double together = TRY(pair_us(card, function, false));
  const double apart = TRY(pair_us(card, function, true));
  return Json{{"kernel_us", kPairUs},
              {"pair_us", together},
              {"pair_with_record_between_us", apart},
              {"record_ends_the_overlap", apart > together + kPairUs / 2}};
}

Result<Json> query_beside_capture(const Card& card) {
  if (card.driver.cuStreamBeginCapture == nullptr || card.driver.cuStreamEndCapture == nullptr ||
      card.driver.cuThreadExchangeStreamCaptureMode == nullptr) {
    return fail(ErrorCode::unsupported, "the driver has no stream capture");
  }
  Json json = Json::array();
  json.push_back(TRY(query_while_capturing(card, CU_STREAM_CAPTURE_MODE_RELAXED)));
  json.push_back(TRY(query_while_capturing(card, CU_STREAM_CAPTURE_MODE_GLOBAL)));
  return json;
}

}  // namespace headgate::gpu_facts
