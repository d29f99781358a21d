// What the CDI files of shares cost headgated: `headgate-bench-containers DIRECTORY` makes shares there, and prints how
// long the file of one takes, all files of 1,000 at a start, and a second's look at them, with the memory that stays.
// JSON.
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "daemon/cdi_files.hpp"

namespace headgate::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;
constexpr int kShares = 1'000;
constexpr const char* kGpu = "GPU-00000000-2222-3333-4444-555555555555";

double ms_since(Clock::time_point then) {
  return std::chrono::duration<double, std::milli>(Clock::now() - then).count();
}

tenancy::Share share_named(const std::string& name) {
  tenancy::Share share;
  share.name = name;
  share.owner_uid = ::geteuid();
  share.devices.emplace_back().uuid = kGpu;
  share.devices[0].memory_limit_bytes = 64ull << 20;
  return share;
}

Result<Json> measure(const std::string& directory) {
  auto store = TRY(tenancy::Store::open(directory + "/state.db"));
  tenancy::Adoption adoption;
  auto shares = TRY(tenancy::Shares::open({directory + "/run", {{kGpu, 1ull << 40}}, {}}, std::move(store), adoption));
  for (int i = 0; i < kShares; ++i)
    if (auto made = shares.create(share_named("share-" + std::to_string(i))); !made)
      return std::unexpected(made.error());
  observe::EventLog events;
  std::optional<daemon::CdiFiles> files;
  const std::size_t before = ::mallinfo2().uordblks;
  files.emplace(directory + "/cdi", "/node", std::vector<snapshot::Gpu>(), shares, events);
  const auto begin = Clock::now();
  files->start();
  const double start_ms = ms_since(begin);
  const std::size_t after = ::mallinfo2().uordblks;
  const auto looked = Clock::now();
  files->keep();
  const double keep_ms = ms_since(looked);
  const auto count = std::distance(std::filesystem::directory_iterator(directory + "/cdi"), {});
  if (count < kShares) return fail(ErrorCode::failed, "only " + std::to_string(count) + " files were written");
  std::vector<double> adds;
  for (int i = 0; i < kShares; ++i) {
    const std::string name = "share-" + std::to_string(i);
    files->remove(name);
    const auto added = Clock::now();
    files->add(name);
    adds.push_back(ms_since(added));
  }
  std::ranges::sort(adds);
  return Json{{"start_ms", start_ms},
              {"keep_ms", keep_ms},
              {"memory_bytes", after - std::min(before, after)},
              {"add", {{"p50_ms", adds[adds.size() / 2]}, {"max_ms", adds.back()}}}};
}

}  // namespace
}  // namespace headgate::bench

int main(int argc, char** argv) {
  if (argc != 2) return std::cerr << "usage: headgate-bench-containers DIRECTORY\n", 2;
  const auto measured = headgate::bench::measure(argv[1]);
  if (!measured) return std::cerr << measured.error().message << "\n", 1;
  std::cout << measured->dump() << "\n";
  return 0;
}
