#include "mixes.hpp"

namespace headgate::bench {
namespace {

// `--compute` and `--burst`: nothing burst is a promise that is also the ceiling.
std::vector<std::string> promise(const std::string& compute, const std::string& burst = {}, unsigned weight = 100) {
  std::vector<std::string> words{"--compute=" + compute + "%", "--weight=" + std::to_string(weight)};
  if (!burst.empty()) words.push_back("--burst=" + burst + "%");
  return words;
}

// A few kernels ahead, as a training job is.
std::vector<std::string> kernels(const std::string& length) { return {"--kernels=" + length, "--sync=depth:8"}; }

std::vector<std::string> on(const std::string& gpus, std::vector<std::string> share) {
  share.push_back("--gpu=" + gpus);
  return share;
}

Tenant plain(const std::string& percent, const std::string& length) { return {promise(percent), kernels(length)}; }
Tenant up_to_all(const std::string& percent, const std::string& length, unsigned weight = 100) {
  return {promise(percent, "100", weight), kernels(length)};
}
Tenant processes(Tenant tenant, unsigned count) {
  tenant.load.push_back("--processes=" + std::to_string(count));
  tenant.gib = count;
  return tenant;
}

// Graphs that fill the driver's queue: their launches block.
Tenant graphs(const std::string& percent) { return {promise(percent, "100"), {"--kernels=20us", "--graph=1000"}}; }

// On both GPUs; `other` is its load on the second one.
Tenant on_both(std::vector<std::string> share, std::vector<std::string> other = kernels("1ms")) {
  other.push_back("--device=1");
  return {.share = on("0,1", std::move(share)), .load = kernels("1ms"), .also = {std::move(other)}};
}
Tenant touches_other(std::vector<std::string> share) {
  return on_both(std::move(share), {"--kernels=200us", "--sync=each", "--gap=20ms"});
}
Tenant on_first(std::vector<std::string> share) { return {.share = on("0", std::move(share)), .load = kernels("1ms")}; }

std::vector<Mix> one_gpu() {
  std::vector<Mix> all = {
      {"promises 60, 10, 10 to 100",
       {up_to_all("60", "1ms"), up_to_all("10", "1ms"), up_to_all("10", "1ms")},
       {66.67, 16.67, 16.67}},
      {"promises 80, 10 to 100", {up_to_all("80", "1ms"), up_to_all("10", "1ms")}, {85, 15}},
      {"promises plain 50; 20, 10 to 100",
       {plain("50", "1ms"), up_to_all("20", "1ms"), up_to_all("10", "1ms")},
       {50, 30, 20}},
      {"promises 20, 20, 20 to 100, weights 1, 2, 8",
       {up_to_all("20", "1ms", 100), up_to_all("20", "1ms", 200), up_to_all("20", "1ms", 800)},
       {23.64, 27.27, 49.09}},
      {"promises 40, 20, 10 to 100, weights 1, 2, 8",
       {up_to_all("40", "1ms", 100), up_to_all("20", "1ms", 200), up_to_all("10", "1ms", 800)},
       {42.73, 25.45, 31.82}},
      {"promises 30 of 20 ms, 70 of 1 ms", {plain("30", "20ms"), plain("70", "1ms")}, {30, 70}},
      {"promises 25 four times, of 20 ms", std::vector<Tenant>(4, plain("25", "20ms")), {25, 25, 25, 25}},
      {"promises 20 of 8 processes of 5 ms, four of 1 ms",
       {processes(plain("20", "5ms"), 8), plain("20", "1ms"), plain("20", "1ms"), plain("20", "1ms"),
        plain("20", "1ms")},
       {20, 20, 20, 20, 20}},
      {"promises 50 of 4 processes of 5 ms, 50 of 1 ms",
       {processes({promise("50"), {"--kernels=5ms", "--sync=depth:2"}}, 4), plain("50", "1ms")},
       {50, 50}},
      {"promises 50, 50 to 100, graphs of 1000 beside 1 ms", {graphs("50"), up_to_all("50", "1ms")}, {50, 50}},
      {.name = "promises 50 of 1 ms beside no limit of 50 ms",
       .tenants = {plain("50", "1ms"), {.share = {}, .load = kernels("50ms")}},
       .asked = {50, 50},
       .in_flight_ms = 50},
      {"promises 50 beside two without, the daemon dies",
       {plain("50", "1ms"), {.share = {}, .load = kernels("1ms")}, {.share = {}, .load = kernels("1ms")}},
       {50, 25, 25}},
  };
  all.back().daemon_dies = true;
  for (const int ms : {20, 50, 200})
    all.push_back({.name = "promises 50, 50 of " + std::to_string(ms) + " ms",
                   .tenants = std::vector<Tenant>(2, plain("50", std::to_string(ms) + "ms")),
                   .asked = {50, 50},
                   .in_flight_ms = ms > 20 ? static_cast<double>(ms) : 0});
  std::vector<Tenant> many(64, plain("1", "1ms"));
  many.push_back(plain("36", "1ms"));
  std::vector<double> asked(64, 1);
  asked.push_back(36);
  all.push_back({"promises 1 of 64 shares, 36 of one", std::move(many), std::move(asked)});
  return all;
}

std::vector<Mix> two_gpus() {
  std::vector<Mix> all = {
      {"promises none: one on two GPUs, one on GPU 0", {on_both({}), on_first({})}, {50, 50}},
      {"promises 70 on two GPUs, 30 touches GPU 1",
       {on_both(promise("70", "100", 70)), touches_other(promise("30", "100", 30))},
       {70, 30}},
      {"promises 10 touches GPU 1, 90 on GPU 0",
       {touches_other(promise("10", "100", 10)), on_first(promise("90", "100", 90))},
       {10, 90}},
      {"promises plain 50 touches GPU 1, plain 50 on GPU 0",
       {touches_other(promise("50")), on_first(promise("50"))},
       {50, 50}},
  };
  all.front().uses_other_gpu = true;
  for (Mix& mix : all) mix.profile = "l40s-x2";
  return all;
}

}  // namespace

std::vector<Mix> promise_mixes() {
  std::vector<Mix> all = one_gpu();
  for (Mix& mix : two_gpus()) all.push_back(std::move(mix));
  return all;
}

}  // namespace headgate::bench
