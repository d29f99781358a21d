// The table. Among foreign names, an earlier row takes precedence: first the limiter this project follows, then HAMi,
// KAI, TensorFusion.
#include "guest/grant/environment.hpp"

namespace headgate::grant {
namespace {

constexpr bool kOurs = true, kForeign = false;
constexpr bool kIndexed = true, kPlain = false;

constexpr Variable kVariables[] = {
    {"HEADGATE_MEM", Meaning::memory, Syntax::memory, kOurs, kIndexed},
    {"HEADGATE_HOST_MEM", Meaning::host_memory, Syntax::memory, kOurs, kIndexed},
    {"HEADGATE_COMPUTE", Meaning::ceiling, Syntax::compute, kOurs, kIndexed},
    {"HEADGATE_BURST", Meaning::soft, Syntax::compute, kOurs, kIndexed},
    {"HEADGATE_GPU", Meaning::gpu, Syntax::text, kOurs, kPlain},
    {"HEADGATE_SHARE", Meaning::share, Syntax::share_name, kOurs, kPlain},
    {"HEADGATE_SHARE_DIR", Meaning::share_dir, Syntax::absolute_path, kOurs, kPlain},
    {"HEADGATE_LOG", Meaning::log, Syntax::log_word, kOurs, kPlain},
    {"HEADGATE_LOG_FILE", Meaning::checked, Syntax::absolute_path, kOurs, kPlain},
    {"HEADGATE_FAIL_POLICY", Meaning::fail_policy, Syntax::fail_word, kOurs, kPlain},
    {"HEADGATE_SOCKET", Meaning::checked, Syntax::text, kOurs, kPlain},
    {"HEADGATE_RUNTIME_DIR", Meaning::checked, Syntax::text, kOurs, kPlain},
    {"HEADGATE_VISIBLE_GPUS", Meaning::checked, Syntax::anything, kOurs, kPlain},
    {"HEADGATE_DISABLE", Meaning::opt_out, Syntax::flag, kOurs, kPlain},

    {"CUDA_MEM_LIMIT", Meaning::memory, Syntax::foreign_memory, kForeign, kIndexed},
    {"CUDA_CORE_LIMIT", Meaning::ceiling, Syntax::percent, kForeign, kIndexed},
    {"CUDA_CORE_SOFT_LIMIT", Meaning::soft, Syntax::percent, kForeign, kIndexed},
    {"CUDA_MEMORY_OVERSUBSCRIBE", Meaning::oversubscribe, Syntax::ratio_or_flag, kForeign, kPlain},
    {"CUDA_MEMORY_RATIO", Meaning::oversubscribe, Syntax::ratio, kForeign, kPlain},
    {"CUDA_MEM_RATIO", Meaning::oversubscribe, Syntax::ratio, kForeign, kIndexed},
    {"CUDA_MEM_OVERSOLD", Meaning::oversubscribe, Syntax::flag, kForeign, kIndexed},
    {"GPU_DEVICES_UUID", Meaning::uuid_list, Syntax::uuids, kForeign, kPlain},
    {"MANAGER_VISIBLE_DEVICES", Meaning::uuid_list, Syntax::uuids, kForeign, kPlain},
    {"MANAGER_VISIBLE_DEVICE", Meaning::uuid_at, Syntax::uuid, kForeign, kIndexed},
    {"LOGGER_LEVEL", Meaning::log, Syntax::log_seed, kForeign, kPlain},
    {"DISABLE_VGPU_CONTROL", Meaning::opt_out, Syntax::flag, kForeign, kPlain},
    {"VGPU_POD_NAME", Meaning::checked, Syntax::anything, kForeign, kPlain},
    {"VGPU_POD_NAMESPACE", Meaning::checked, Syntax::anything, kForeign, kPlain},
    {"VGPU_POD_UID", Meaning::checked, Syntax::anything, kForeign, kPlain},
    {"VGPU_CONTAINER_NAME", Meaning::checked, Syntax::anything, kForeign, kPlain},

    {"CUDA_DEVICE_MEMORY_LIMIT", Meaning::memory, Syntax::foreign_memory, kForeign, kIndexed},
    {"CUDA_DEVICE_SM_LIMIT", Meaning::ceiling, Syntax::percent, kForeign, kIndexed},
    {"CUDA_TASK_PRIORITY", Meaning::checked, Syntax::priority, kForeign, kPlain},
    {"GPU_CORE_UTILIZATION_POLICY", Meaning::compute_policy, Syntax::policy_word, kForeign, kPlain},
    {"CUDA_OVERSUBSCRIBE", Meaning::oversubscribe, Syntax::flag, kForeign, kPlain},
    {"ACTIVE_OOM_KILLER", Meaning::checked, Syntax::flag, kForeign, kPlain},
    {"CUDA_DISABLE_CONTROL", Meaning::opt_out, Syntax::flag, kForeign, kPlain},
    {"CUDA_DEVICE_MEMORY_SHARED_CACHE", Meaning::checked, Syntax::anything, kForeign, kPlain},
    {"CUDA_REDIRECT", Meaning::checked, Syntax::anything, kForeign, kPlain},
    {"LIBCUDA_LOG_LEVEL", Meaning::log, Syntax::log_hami, kForeign, kPlain},

    {"GPU_MEMORY_LIMIT", Meaning::memory, Syntax::foreign_memory, kForeign, kPlain},

    {"TENSOR_FUSION_CUDA_MEM_LIMIT", Meaning::memory, Syntax::memory_map, kForeign, kPlain},
    {"TENSOR_FUSION_CUDA_UP_LIMIT", Meaning::ceiling, Syntax::percent_map, kForeign, kPlain},
};

}  // namespace

std::span<const Variable> variables() { return kVariables; }

std::string_view accepted(Syntax syntax) {
  switch (syntax) {
    case Syntax::memory: return accepted_memory(Dialect::headgate);
    case Syntax::foreign_memory: return accepted_memory(Dialect::bare_bytes);
    case Syntax::compute: return "50%, 0.5, 500m or 40TFLOPS: more than 0, at most one GPU";
    case Syntax::percent: return accepted_compute(Dialect::bare_percent);
    case Syntax::memory_map: return R"(a JSON map from UUID or index to bytes, such as {"GPU-9c2f...": 8589934592})";
    case Syntax::percent_map: return R"(a JSON map from UUID or index to percent from 1 to 100, such as {"0": 50})";
    case Syntax::ratio: return "a number from 1 to 1000, such as 1.5";
    case Syntax::ratio_or_flag: return "true, false or a number from 1 to 1000, such as 1.5";
    case Syntax::flag: return "true, false, 1 or 0";
    case Syntax::log_word: return "off, error, warn, info or debug";
    case Syntax::log_seed: return "a number from 0 to 5";
    case Syntax::log_hami: return "a number from 0 to 4";
    case Syntax::fail_word: return "open or closed";
    case Syntax::priority: return "0 (high) or 1 (low)";
    case Syntax::policy_word: return "default, force or disable";
    case Syntax::uuids: return "GPU UUIDs separated by commas, at most 16";
    case Syntax::uuid: return "a GPU UUID such as GPU-9c2f...";
    case Syntax::share_name: return "1 to 63 letters, digits, '-', '_' or '.', not beginning with '.' or '-'";
    case Syntax::absolute_path: return "an absolute path of at most 255 bytes";
    case Syntax::text: return "some text";
    case Syntax::anything: return "anything";
  }
  return "";
}

}  // namespace headgate::grant
