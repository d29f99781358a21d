#include <benchmark/benchmark.h>

#include "guest/ledger/account.hpp"
#include "guest/ledger/test_page.hpp"

namespace headgate::ledger {
namespace {

void reserve_and_give_back(benchmark::State& state) {
  const SharedPage page = make_shared_page();
  const SlotRef me = seat(*page, made_up(10));
  for (auto _ : state) {
    benchmark::DoNotOptimize(reserve(*page, 0, me, 4096, 1 << 30));
    benchmark::DoNotOptimize(give_back(*page, 0, me, 4096));
  }
}
BENCHMARK(reserve_and_give_back);

void refusal(benchmark::State& state) {
  const SharedPage page = make_shared_page();
  const SlotRef me = seat(*page, made_up(10));
  for (auto _ : state) benchmark::DoNotOptimize(reserve(*page, 0, me, 4096, 100));
}
BENCHMARK(refusal);

}  // namespace
}  // namespace headgate::ledger

BENCHMARK_MAIN();
