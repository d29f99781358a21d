#include "demo/demo_tenants.hpp"

namespace headgate::demo {
namespace {

constexpr std::uint64_t kGiB = 1ull << 30;

std::string gib(unsigned number) { return std::to_string(number) + "GiB"; }
std::string milliseconds_word(double seconds) { return std::to_string(static_cast<long>(seconds * 1000)) + "ms"; }

struct Part {
  DemoRole role;
  const char* name;
  const char* does;
  unsigned limit_gib, takes_gib, attempts_gib, grows_gib;
  unsigned compute_percent, ceiling_percent;
  double starts_at;  // fraction of the demo's duration
};

constexpr Part kParts[] = {
    {DemoRole::trainer, "trainer", "1 ms kernels without a pause", 48, 40, 0, 0, 50, 50, 0},
    {DemoRole::server, "server", "20 kernels a request, in bursts", 16, 12, 0, 0, 20, 40, 0},
    {DemoRole::notebook, "notebook", "holds 6 GiB and does nothing", 8, 6, 0, 0, 10, 10, 0},
    {DemoRole::leaker, "leaker", "takes 1 GiB more, and one more", 8, 1, 0, 1, 5, 5, 0.05},
    {DemoRole::over_asker, "over-asker", "wants 80 GiB at once", 16, 2, 80, 0, 5, 5, 0.2},
    {DemoRole::bypasser, "bypasser", "starts without the limiter", 8, 6, 0, 0, 5, 5, 0.3},
};

// Returns the load options for the tenant's continuous work; memory options are added elsewhere.
std::vector<std::string> work_of(DemoRole role, double lasts_s) {
  switch (role) {
    case DemoRole::trainer: return {"--kernels=1ms"};
    // kDemoServerWantsPercent: 10 ms of kernels, then a pause.
    case DemoRole::server: return {"--kernels=500us", "--sync=batch:20", "--gap=50ms"};
    case DemoRole::leaker: return {"--no-launches", "--grow=1GiB", "--gap=" + milliseconds_word(lasts_s / 14)};
    case DemoRole::bypasser: return {"--kernels=200us", "--sync=each", "--gap=4ms"};
    case DemoRole::notebook:
    case DemoRole::over_asker: break;
  }
  return {"--no-launches"};
}

}  // namespace

std::vector<DemoTenant> demo_cast(double total_s) {
  std::vector<DemoTenant> cast;
  for (const Part& part : kParts) {
    DemoTenant tenant{.role = part.role, .name = part.name, .does = part.does};
    tenant.limit_bytes = part.limit_gib * kGiB;
    tenant.takes_bytes = part.takes_gib * kGiB;
    tenant.attempts_bytes = part.attempts_gib * kGiB;
    tenant.grows_bytes = part.grows_gib * kGiB;
    tenant.compute_percent = part.compute_percent;
    tenant.ceiling_percent = part.ceiling_percent;
    tenant.starts_at_s = part.starts_at * total_s;
    tenant.order = {{"name", part.name},
                    {"gpu", "0"},
                    {"mem", gib(part.limit_gib)},
                    {"compute", std::to_string(part.compute_percent) + "%"},
                    {"burst", std::to_string(part.ceiling_percent) + "%"}};
    if (part.role == DemoRole::notebook) tenant.order.emplace_back("idle_notice", "3s");
    if (part.role == DemoRole::bypasser) tenant.command = {"env", "-u", "LD_PRELOAD"};
    const double lasts_s = total_s - kDemoTailS - tenant.starts_at_s;
    tenant.load_arguments = {"--mem=" + gib(part.takes_gib), "--duration=" + milliseconds_word(lasts_s),
                             "--no-idle-list"};
    if (part.attempts_gib > 0) tenant.load_arguments.push_back("--attempt=" + gib(part.attempts_gib));
    for (std::string& word : work_of(part.role, lasts_s)) tenant.load_arguments.push_back(std::move(word));
    cast.push_back(std::move(tenant));
  }
  return cast;
}

}  // namespace headgate::demo
