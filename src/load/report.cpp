#include <nlohmann/json.hpp>

#include "load/asking.hpp"
#include "load/driver.hpp"
#include "load/generate.hpp"

namespace headgate::load {

std::string to_json(const Options& options, const Report& report) {
  Histogram launch_ns, request_ns;
  std::uint64_t grown_bytes = 0;
  bool grow_refused = false;
  std::vector<std::uint32_t> pids;
  std::uint64_t launches = 0, memory_bytes = 0, given = 0, refused = 0, attempt_ns = 0, idle = 0;
  std::int64_t processor_wait = 0;
  double kernel_us = 0;
  for (const ProcessReport& process : report.processes) {
    launch_ns.merge(process.launch_ns);
    request_ns.merge(process.request_ns);
    grown_bytes += process.grown_bytes;
    grow_refused |= process.grow_refused;
    pids.push_back(process.pid);
    launches += process.launches;
    kernel_us += process.kernel_us;
    memory_bytes += process.memory_bytes;
    (process.attempt_result == CUDA_SUCCESS ? given : refused) += options.attempt_bytes;
    attempt_ns = std::max(attempt_ns, process.attempt_ns);
    processor_wait = std::max(processor_wait, process.processor_wait_ns);
  }
  for (const std::int64_t ns : report.idle_ns) {
    idle += static_cast<std::uint64_t>(ns);
  }
  const ProcessReport& first = report.processes.front();
  nlohmann::ordered_json json{
      {"schema", "headgate.load/v1"},
      {"device", first.device_name},
      {"pids", pids},
      {"started_ns", report.started_ns},
      {"ended_ns", report.ended_ns},
      {"drained_ns", report.drained_ns},
      {"launches", launches},
      {"kernel_us", kernel_us},
      {"launch_ns",
       {{"p50", launch_ns.percentile_ns(0.5)},
        {"p99", launch_ns.percentile_ns(0.99)},
        {"max", launch_ns.max_ns()},
        {"mean", launch_ns.mean_ns()}}},
      {"memory", {{"taken_bytes", memory_bytes}, {"free_bytes", first.free_bytes}, {"total_bytes", first.total_bytes}}},
      {"not_asking_ns", idle},
      {"processor_wait_ns", processor_wait},
  };
  if (options.attempt_bytes > 0) {
    json["attempt"] = {{"asked_bytes", options.attempt_bytes},
                       {"given_bytes", given},
                       {"refused_bytes", refused},
                       {"result", words_for("cuMemAlloc", static_cast<CUresult>(first.attempt_result))},
                       {"slowest_ns", attempt_ns}};
  }
  if (options.sync == SyncStyle::batch) {
    json["request_ns"] = {{"count", request_ns.count()},
                          {"p50", request_ns.percentile_ns(0.5)},
                          {"p99", request_ns.percentile_ns(0.99)},
                          {"max", request_ns.max_ns()}};
  }
  if (options.grow_bytes > 0) json["grow"] = {{"given_bytes", grown_bytes}, {"refused", grow_refused}};
  if (options.edge) {
    json["edge"] = {{"free_bytes", first.free_bytes},
                    {"one_byte_over", words_for("cuMemAlloc", static_cast<CUresult>(first.edge_over_result))},
                    {"one_byte_over_refused", first.edge_over_result == CUDA_ERROR_OUT_OF_MEMORY},
                    {"all_free", words_for("cuMemAlloc", static_cast<CUresult>(first.edge_exact_result))},
                    {"all_free_given", first.edge_exact_result == CUDA_SUCCESS}};
  }
  if (!options.quiet_idle) {
    json["not_asking"] = {{"bucket_ns", kIdleBucketNs}, {"idle_ns", report.idle_ns}};
  }
  return json.dump();
}

}  // namespace headgate::load
