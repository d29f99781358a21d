#include <algorithm>
#include <ctime>

#include "fact.hpp"

namespace headgate::gpu_facts {

Result<Card> open_card() {
  Card card;
  card.driver = TRY(open_driver());
  TRY(check("cuInit", card.driver.cuInit(0)));
  TRY(check("cuDevicePrimaryCtxRetain", card.driver.cuDevicePrimaryCtxRetain(&card.context, 0)));
  TRY(check("cuCtxSetCurrent", card.driver.cuCtxSetCurrent(card.context)));
  card.kernel = TRY(load_busy_kernel(card.driver));
  TRY(check("cuStreamCreate", card.driver.cuStreamCreate(&card.stream, CU_STREAM_NON_BLOCKING)));
  // The first launch loads code, which must not be part of any figure.
  TRY(check("cuLaunchKernel", launch_busy(card.driver, card.kernel, 1, card.stream)));
  TRY(check("cuStreamSynchronize", card.driver.cuStreamSynchronize(card.stream)));
  return card;
}

std::int64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

double median(std::vector<double> values) {
  if (values.empty()) {
    return 0;
  }
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

}  // namespace headgate::gpu_facts
