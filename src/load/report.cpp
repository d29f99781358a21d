#include <nlohmann/json.hpp>

#include "load/asking.hpp"
#include "load/driver.hpp"
#include "load/generate.hpp"

namespace headgate::load {

std::string to_json(const Options& options, const Report& report) {
  ProcessReport all;
  std::vector<std::uint32_t> pids;
  std::uint64_t given = 0, refused = 0, idle = 0;
  for (const ProcessReport& process : report.processes) {
    merge(all, process);
    pids.push_back(process.pid);
    (process.attempt_result == CUDA_SUCCESS ? given : refused) += options.attempt_bytes;
  }
  for (const std::int64_t ns : report.idle_ns) idle += static_cast<std::uint64_t>(ns);
  const ProcessReport& first = report.processes.front();
  nlohmann::ordered_json json{
      {"schema", "headgate.load/v1"},
      {"device", first.device_name},
      {"pids", pids},
      {"started_ns", report.started_ns},
      {"ended_ns", report.ended_ns},
      {"drained_ns", report.drained_ns},
      {"launches", all.launches},
      {"kernel_us", all.kernel_us},
      {"launch_ns",
       {{"p50", all.launch_ns.percentile_ns(0.5)},
        {"p99", all.launch_ns.percentile_ns(0.99)},
        {"max", all.launch_ns.max_ns()},
        {"mean", all.launch_ns.mean_ns()}}},
      {"memory",
       {{"taken_bytes", all.memory_bytes}, {"free_bytes", first.free_bytes}, {"total_bytes", first.total_bytes}}},
      {"not_asking_ns", idle},
      {"processor_wait_ns", all.processor_wait_ns},
  };
  if (options.attempt_bytes > 0)
    json["attempt"] = {{"asked_bytes", options.attempt_bytes},
                       {"given_bytes", given},
                       {"refused_bytes", refused},
                       {"result", words_for("cuMemAlloc", static_cast<CUresult>(first.attempt_result))},
                       {"slowest_ns", all.attempt_ns}};
  if (options.sync == SyncStyle::batch)
    json["request_ns"] = {{"count", all.request_ns.count()},
                          {"p50", all.request_ns.percentile_ns(0.5)},
                          {"p99", all.request_ns.percentile_ns(0.99)},
                          {"max", all.request_ns.max_ns()}};
  if (options.grow_bytes > 0) json["grow"] = {{"given_bytes", all.grown_bytes}, {"refused", all.grow_refused}};
  if (options.edge)
    json["edge"] = {{"free_bytes", first.free_bytes},
                    {"one_byte_over", words_for("cuMemAlloc", static_cast<CUresult>(first.edge_over_result))},
                    {"one_byte_over_refused", first.edge_over_result == CUDA_ERROR_OUT_OF_MEMORY},
                    {"all_free", words_for("cuMemAlloc", static_cast<CUresult>(first.edge_exact_result))},
                    {"all_free_given", first.edge_exact_result == CUDA_SUCCESS}};
  if (!options.quiet_idle) json["not_asking"] = {{"bucket_ns", kIdleBucketNs}, {"idle_ns", report.idle_ns}};
  return json.dump();
}

}  // namespace headgate::load
