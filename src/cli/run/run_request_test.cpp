#include "cli/run/run_request.hpp"

#include <gtest/gtest.h>

#include "cli/test_parse.hpp"

namespace headgate::cli {
namespace {

Result<Read<RunOptions>> run_words(const std::vector<const char*>& words) {
  return read_words<RunOptions>("run", add_run_options, words);
}

TEST(RunRequest, EachBadLimitHasItsExactSentence) {
  const struct {
    const char* text;
    const char* message;
    const char* hint;
  } memory[] = {
      {"0m", "--mem '0m' is zero", "accepted: 8GiB, 8G, 1.5GiB, 800MiB, 8GB (decimal) or 50% of the card"},
      {"abc", "--mem 'abc' is not understood", "accepted: 8GiB, 8G, 1.5GiB, 800MiB, 8GB (decimal) or 50% of the card"},
      {"-1", "--mem '-1' is negative", "accepted: 8GiB, 8G, 1.5GiB, 800MiB, 8GB (decimal) or 50% of the card"},
      {"1e9GiB", "--mem '1e9GiB' is not understood",
       "accepted: 8GiB, 8G, 1.5GiB, 800MiB, 8GB (decimal) or 50% of the card"},
      {"8000", "--mem '8000' has no unit",
       "did you mean 8000MiB? accepted: 8GiB, 8G, 1.5GiB, 800MiB, 8GB (decimal) or 50% of the card"},
      {"99999999999999G", "--mem '99999999999999G' is too large",
       "accepted: 8GiB, 8G, 1.5GiB, 800MiB, 8GB (decimal) or 50% of the card"},
  };
  for (const auto& row : memory) {
    const auto parsed = memory_option("--mem", row.text);
    ASSERT_FALSE(parsed);
    EXPECT_EQ(parsed.error(), (Error{ErrorCode::usage, row.message, row.hint}));
  }
  EXPECT_EQ(
      compute_option("--compute", "0").error(),
      (Error{ErrorCode::usage, "--compute '0' is zero", "accepted: 50%, 0.5 or 500m: more than 0, at most one GPU"}));
  EXPECT_EQ(compute_option("--compute", "101%").error(),
            (Error{ErrorCode::usage, "--compute '101%' is more than a whole GPU",
                   "accepted: 50%, 0.5 or 500m: more than 0, at most one GPU"}));
  EXPECT_EQ(compute_option("--compute", "50").error().hint,
            "did you mean 50%? accepted: 50%, 0.5 or 500m: more than 0, at most one GPU");
}

install::Gpus one_card() {
  snapshot::Gpu gpu;
  gpu.uuid = "GPU-9c2f0000-1111";
  gpu.model = "NVIDIA H200";
  gpu.memory_total_bytes = gpu.memory_free_bytes = 141ull << 30;
  return {{gpu}, "570", true};
}

TEST(RunRequest, ComputeInTflopsIsAPartOfTheCard) {
  const char* const none[] = {nullptr};
  RunOptions run;
  run.compute = "98.9TFLOPS";
  config::Config config = config::defaults().config;
  EXPECT_EQ(
      make_grant(*read_run_request(run, config), one_card(), {0}, none, std::nullopt)->devices[0].compute_ceiling_ppm,
      100'000u);
  config.settings.push_back({.key = "cards.H200", .value = "197.8", .origin = "config.toml:2"});
  EXPECT_EQ(
      make_grant(*read_run_request(run, config), one_card(), {0}, none, std::nullopt)->devices[0].compute_ceiling_ppm,
      500'000u);
  run.compute = "2PFLOPS";
  const auto more = make_grant(*read_run_request(run, config), one_card(), {0}, none, std::nullopt);
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().hint, "accepted: up to 197TFLOPS (H200, FP16)");
  run.compute = "40xFLOPS";
  EXPECT_FALSE(read_run_request(run, config));
  install::Gpus other = one_card();
  other.list[0].model = "NVIDIA Unheard Of";
  run.compute = "40TFLOPS";
  EXPECT_FALSE(make_grant(*read_run_request(run, config), other, {0}, none, std::nullopt));
}

TEST(RunRequest, MemoryBeyondTheCardIsRefusedWithBothSizes) {
  RunRequest request;
  request.memory = grant::Memory{.bytes = 200ull << 30};
  request.memory_text = "--mem 200GiB";
  const char* const none[] = {nullptr};
  const auto grant = make_grant(request, one_card(), {0}, none, std::nullopt);
  ASSERT_FALSE(grant);
  EXPECT_EQ(grant.error(), (Error{ErrorCode::no_capacity, "--mem 200GiB is more than GPU 0 (H200) has: 141.0 GiB",
                                  "ask for at most 141.0 GiB, or choose another GPU with --gpu"}));
}

TEST(RunRequest, OptionOverridesEnvironmentAndThatConfiguration) {
  const char* const environment[] = {"CUDA_MEM_LIMIT_0=1g", "CUDA_CORE_LIMIT=30", nullptr};
  RunRequest request;
  request.memory = grant::Memory{.bytes = 5};
  request.compute_ppm = 7;
  auto grant = make_grant(request, one_card(), {0}, environment, std::nullopt);
  EXPECT_EQ(grant->devices[0].memory_limit_bytes, 5u);
  EXPECT_EQ(grant->devices[0].compute_ceiling_ppm, 7u);
  request.memory_is_default = request.compute_is_default = true;
  grant = make_grant(request, one_card(), {0}, environment, std::nullopt);
  EXPECT_EQ(grant->devices[0].memory_limit_bytes, 1ull << 30);
  EXPECT_EQ(grant->devices[0].compute_ceiling_ppm, 300'000u);
}

TEST(RunRequest, BurstComesFromOptionThenEnvironmentThenShare) {
  const char* const said[] = {"CUDA_CORE_LIMIT=30", "CUDA_CORE_SOFT_LIMIT=80", nullptr};
  const char* const none[] = {nullptr};
  RunRequest request;
  auto grant = make_grant(request, one_card(), {0}, said, std::nullopt);
  EXPECT_EQ(grant->devices[0].compute_burst_ppm, 800'000u);
  EXPECT_EQ(make_grant(request, one_card(), {0}, none, *grant)->devices[0].compute_burst_ppm, 800'000u);
  request.compute_ppm = 500'000;
  EXPECT_EQ(make_grant(request, one_card(), {0}, none, *grant)->devices[0].compute_burst_ppm, 0u);
  const auto run = run_words({"run", "--compute", "50%", "--burst=90%", "--", "python"});
  ASSERT_TRUE(run);
  EXPECT_EQ(run->own.burst, "90%");
  request.burst_ppm = 900'000;
  EXPECT_EQ(make_grant(request, one_card(), {0}, said, std::nullopt)->devices[0].compute_burst_ppm, 900'000u);
  request.compute_ppm = 900'000;
  EXPECT_FALSE(make_grant(request, one_card(), {0}, none, std::nullopt));
}

TEST(RunRequest, HostMemoryComesFromOptionThenEnvironmentThenShare) {
  const char* const said[] = {"HEADGATE_HOST_MEM=2GiB", nullptr};
  const char* const none[] = {nullptr};
  RunRequest request;
  EXPECT_EQ(make_grant(request, one_card(), {0}, none, std::nullopt)->devices[0].host_limit_bytes, 0u);
  auto grant = make_grant(request, one_card(), {0}, said, std::nullopt);
  EXPECT_EQ(grant->devices[0].host_limit_bytes, 2ull << 30);
  EXPECT_EQ(make_grant(request, one_card(), {0}, none, *grant)->devices[0].host_limit_bytes, 2ull << 30);
  const auto run = run_words({"run", "--mem", "8GiB", "--host-mem=1GiB", "--", "python"});
  ASSERT_TRUE(run);
  EXPECT_EQ(run->own.host_mem, "1GiB");
  request.host_memory = grant::Memory{.bytes = 1ull << 30};
  EXPECT_EQ(make_grant(request, one_card(), {0}, said, std::nullopt)->devices[0].host_limit_bytes, 1ull << 30);
}

TEST(RunRequest, AnUnreadableEnvironmentIsAnErrorNotNoLimit) {
  const char* const environment[] = {"CUDA_MEM_LIMIT=0", nullptr};
  const auto grant = make_grant({}, one_card(), {0}, environment, std::nullopt);
  ASSERT_FALSE(grant);
  EXPECT_EQ(grant.error().message,
            "the environment variable CUDA_MEM_LIMIT='0' is zero; accepted: bytes, or a number with k, m, g or t "
            "(binary), such as 3g, 1.5G or 1000m");
}

TEST(RunRequest, AnUnknownGpuIsNamedWithTheKnownOnes) {
  const auto chosen = choose_gpus("--gpu", "0,3", one_card());
  ASSERT_FALSE(chosen);
  EXPECT_EQ(chosen.error().code, ErrorCode::usage);
  EXPECT_EQ(chosen.error().message, "--gpu '0,3': '3' is not a GPU of this node");
  EXPECT_NE(chosen.error().hint.find("GPUs here: 0 (GPU-9c2f0000)"), std::string::npos) << chosen.error().hint;
  EXPECT_EQ(choose_gpus("--gpu", "MIG-1", one_card()).error().code, ErrorCode::unsupported);
}

}  // namespace
}  // namespace headgate::cli
