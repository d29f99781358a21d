// Which driver calls are allowed while a stream captures, in the capturing thread and in another one.
#include <dlfcn.h>

#include <functional>
#include <thread>

#include "fact.hpp"

namespace headgate::gpu_facts {

namespace {

struct Beside {
  const Card& card;
  CUstream captured, idle;
  CUevent recorded, second;
};

struct Call {
  const char* name;
  std::function<CUresult(const Beside&)> make;
};

template <typename... Arguments>
CUresult call(const Card& card, const char* name, Arguments... arguments) {
  auto* const function = reinterpret_cast<CUresult (*)(Arguments...)>(::dlsym(card.driver.library, name));
  return function == nullptr ? CUDA_ERROR_NOT_FOUND : function(arguments...);
}

// Calls that the limiter itself makes, and those that PyTorch makes during a capture.
const std::vector<Call>& calls() {
  static const std::vector<Call> all{
      {"nothing", [](const Beside&) { return CUDA_SUCCESS; }},
      {"cuCtxGetCurrent",
       [](const Beside& b) {
         CUcontext c = nullptr;
         return call(b.card, "cuCtxGetCurrent", &c);
       }},
      {"cuCtxSetCurrent", [](const Beside& b) { return b.card.driver.cuCtxSetCurrent(b.card.context); }},
      {"cuCtxGetDevice",
       [](const Beside& b) {
         CUdevice d = 0;
         return call(b.card, "cuCtxGetDevice", &d);
       }},
      {"cuStreamIsCapturing",
       [](const Beside& b) {
         int s = 0;
         return call(b.card, "cuStreamIsCapturing", b.captured, &s);
       }},
      {"cuStreamIsCapturing(legacy)",
       [](const Beside& b) {
         int s = 0;
         return call(b.card, "cuStreamIsCapturing", CUstream{}, &s);
       }},
      {"cuStreamGetId",
       [](const Beside& b) {
         unsigned long long i = 0;
         return call(b.card, "cuStreamGetId", b.captured, &i);
       }},
      {"cuStreamGetId(idle)",
       [](const Beside& b) {
         unsigned long long i = 0;
         return call(b.card, "cuStreamGetId", b.idle, &i);
       }},
      {"cuStreamGetCtx",
       [](const Beside& b) {
         CUcontext c = nullptr;
         return call(b.card, "cuStreamGetCtx", b.captured, &c);
       }},
      {"cuStreamGetFlags",
       [](const Beside& b) {
         unsigned f = 0;
         return call(b.card, "cuStreamGetFlags", b.captured, &f);
       }},
      {"cuStreamGetPriority",
       [](const Beside& b) {
         int p = 0;
         return call(b.card, "cuStreamGetPriority", b.captured, &p);
       }},
      {"cuStreamQuery(captured)", [](const Beside& b) { return b.card.driver.cuStreamQuery(b.captured); }},
      {"cuStreamQuery(idle)", [](const Beside& b) { return b.card.driver.cuStreamQuery(b.idle); }},
      {"cuEventCreate",
       [](const Beside& b) {
         CUevent e = nullptr;
         return b.card.driver.cuEventCreate(&e, 0);
       }},
      {"cuEventRecord(idle)", [](const Beside& b) { return b.card.driver.cuEventRecord(b.second, b.idle); }},
      {"cuEventRecord(captured)", [](const Beside& b) { return b.card.driver.cuEventRecord(b.second, b.captured); }},
      {"cuEventQuery", [](const Beside& b) { return b.card.driver.cuEventQuery(b.recorded); }},
      {"cuEventElapsedTime",
       [](const Beside& b) {
         float ms = 0;
         return b.card.driver.cuEventElapsedTime(&ms, b.recorded, b.recorded);
       }},
      {"cuEventSynchronize", [](const Beside& b) { return b.card.driver.cuEventSynchronize(b.recorded); }},
      {"cuMemGetInfo",
       [](const Beside& b) {
         std::size_t f = 0, t = 0;
         return b.card.driver.cuMemGetInfo(&f, &t);
       }},
      {"cuMemAlloc",
       [](const Beside& b) {
         CUdeviceptr p = 0;
         return b.card.driver.cuMemAlloc(&p, 4096);
       }},
      {"cuLaunchKernel(idle)", [](const Beside& b) { return launch_busy(b.card.driver, b.card.kernel, 1, b.idle); }},
      {"cuFuncGetAttribute",
       [](const Beside& b) {
         int v = 0;
         return call(b.card, "cuFuncGetAttribute", &v, 0, b.card.kernel.function);
       }},
      {"cuFuncGetModule",
       [](const Beside& b) {
         CUmodule m = nullptr;
         return call(b.card, "cuFuncGetModule", &m, b.card.kernel.function);
       }},
      {"cuFuncLoad", [](const Beside& b) { return call(b.card, "cuFuncLoad", b.card.kernel.function); }},
      {"cuDeviceGetDefaultMemPool",
       [](const Beside& b) {
         void* p = nullptr;
         return call(b.card, "cuDeviceGetDefaultMemPool", &p, CUdevice{0});
       }},
      {"cuStreamCreate",
       [](const Beside& b) {
         CUstream s = nullptr;
         return b.card.driver.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING);
       }},
      {"cuStreamSynchronize(idle)", [](const Beside& b) { return b.card.driver.cuStreamSynchronize(b.idle); }},
  };
  return all;
}

struct Setting {
  const char* name;
  CUstreamCaptureMode capture;
  bool same_thread;
  CUstreamCaptureMode asking;
};

// Returns the call's result, with "+ breaks" if it invalidates the capture.
Result<std::string> beside(const Card& card, const Setting& setting, const Call& one) {
  Beside b{.card = card, .captured = nullptr, .idle = nullptr, .recorded = nullptr, .second = nullptr};
  TRY(check("cuStreamCreate", card.driver.cuStreamCreate(&b.captured, CU_STREAM_NON_BLOCKING)));
  TRY(check("cuStreamCreate", card.driver.cuStreamCreate(&b.idle, CU_STREAM_NON_BLOCKING)));
  TRY(check("cuEventCreate", card.driver.cuEventCreate(&b.recorded, 0)));
  TRY(check("cuEventCreate", card.driver.cuEventCreate(&b.second, 0)));
  TRY(check("cuEventRecord", card.driver.cuEventRecord(b.recorded, b.idle)));
  TRY(check("cuStreamSynchronize", card.driver.cuStreamSynchronize(b.idle)));
  TRY(check("cuStreamBeginCapture", card.driver.cuStreamBeginCapture(b.captured, setting.capture)));
  CUresult answer = CUDA_ERROR_UNKNOWN;
  const auto ask = [&] {
    CUstreamCaptureMode mode = setting.asking;
    card.driver.cuThreadExchangeStreamCaptureMode(&mode);
    answer = one.make(b);
    card.driver.cuThreadExchangeStreamCaptureMode(&mode);
  };
  if (setting.same_thread) ask();
  else
    std::thread([&] {
      card.driver.cuCtxSetCurrent(card.context);
      ask();
    }).join();
  const bool launched = launch_busy(card.driver, card.kernel, 1, b.captured) == CUDA_SUCCESS;
  CUgraph graph = nullptr;
  const bool ended = card.driver.cuStreamEndCapture(b.captured, &graph) == CUDA_SUCCESS;
  if (graph != nullptr && card.driver.cuGraphDestroy != nullptr) card.driver.cuGraphDestroy(graph);
  card.driver.cuStreamSynchronize(b.idle);
  card.driver.cuEventDestroy(b.second);
  card.driver.cuEventDestroy(b.recorded);
  card.driver.cuStreamDestroy(b.idle);
  card.driver.cuStreamDestroy(b.captured);
  return std::to_string(answer) + (launched && ended ? "" : " breaks");
}

}  // namespace

Result<Json> calls_beside_capture(const Card& card) {
  if (card.driver.cuStreamBeginCapture == nullptr || card.driver.cuThreadExchangeStreamCaptureMode == nullptr)
    return fail(ErrorCode::unsupported, "the driver has no stream capture");
  constexpr Setting kSettings[] = {
      {"global, same thread", CU_STREAM_CAPTURE_MODE_GLOBAL, true, CU_STREAM_CAPTURE_MODE_GLOBAL},
      {"global, same thread relaxed", CU_STREAM_CAPTURE_MODE_GLOBAL, true, CU_STREAM_CAPTURE_MODE_RELAXED},
      {"thread_local, same thread", CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, true, CU_STREAM_CAPTURE_MODE_GLOBAL},
      {"relaxed, same thread", CU_STREAM_CAPTURE_MODE_RELAXED, true, CU_STREAM_CAPTURE_MODE_GLOBAL},
      {"global, other thread relaxed", CU_STREAM_CAPTURE_MODE_GLOBAL, false, CU_STREAM_CAPTURE_MODE_RELAXED},
      {"global, other thread", CU_STREAM_CAPTURE_MODE_GLOBAL, false, CU_STREAM_CAPTURE_MODE_GLOBAL},
  };
  Json json = Json::object();
  for (const Setting& setting : kSettings)
    for (const Call& one : calls()) {
      const auto answer = beside(card, setting, one);
      json[setting.name][one.name] = answer ? *answer : answer.error().message;
    }
  return json;
}

}  // namespace headgate::gpu_facts
