// headgate-gpu-facts: measures on a card what headgate's design takes from tables and headers, and prints it as JSON.
//
//   LD_LIBRARY_PATH=... headgate-gpu-facts [NAME...]
//
// Changes no setting of the card and leaves nothing behind. On the simulator it only shows that it runs: the figures
// are the profile's. Exit status: 0 if it ran, 3 without a driver. A fact that could not be measured says why.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <vector>

#include "fact.hpp"

using namespace headgate;
using namespace headgate::gpu_facts;

namespace {

struct Fact {
  const char* name;
  Measure measure;
};

constexpr Fact kFacts[] = {
    {"event_costs", event_costs},
    {"clock_drift", clock_drift},
    {"queue_depth", queue_depth},
    {"programmatic_launch", programmatic_launch},
    {"slab_size", slab_size},
    {"pool_growth", pool_growth},
    {"symbol_aliases", symbol_aliases},
    {"query_beside_capture", query_beside_capture},  // last, because a driver may keep an invalidated capture's error
    {"calls_beside_capture", calls_beside_capture},
};

struct ForkingFact {
  const char* name;
  Result<Json> (*measure)();
};

// Run before this process opens the card, because a driver does not survive fork.
constexpr ForkingFact kForkingFacts[] = {{"context_bytes", context_bytes},
                                         {"memory_after_kill", memory_after_kill},
                                         {"time_slice_between_processes", time_slice_between_processes}};

Json value_of(const Result<Json>& measured) {
  return measured ? *measured : Json{{"unmeasured", measured.error().message}};
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string_view> wanted(argv + 1, argv + argc);
  const auto wants = [&wanted](std::string_view name) {
    return wanted.empty() || std::ranges::find(wanted, name) != wanted.end();
  };
  Json facts{{"schema", "headgate.gpu-facts/v1"}};
  const auto note = [&facts](const char* name, const Result<Json>& measured) {
    facts["facts"][name] = value_of(measured);
    std::fprintf(stderr, "gpu-facts: %s: %s\n", name, facts["facts"][name].dump().substr(0, 300).c_str());
  };
  for (const ForkingFact& fact : kForkingFacts) {
    if (wants(fact.name)) note(fact.name, fact.measure());
  }
  const auto card = open_card();
  if (!card) {
    std::fprintf(stderr, "gpu-facts: %s\n  %s\n", card.error().message.c_str(), card.error().hint.c_str());
    return exit_status(card.error().code);
  }
  char name[96] = {};
  int version = 0;
  card->driver.cuDeviceGetName(name, sizeof name, 0);
  if (card->driver.cuDriverGetVersion != nullptr) card->driver.cuDriverGetVersion(&version);
  facts["device"] = name;
  facts["cuda_version"] = version;
  facts["simulated"] = ::getenv("HEADGATE_SIM_DIR") != nullptr;
  for (const Fact& fact : kFacts) {
    if (wants(fact.name)) note(fact.name, fact.measure(*card));
  }
  std::puts(facts.dump(1).c_str());
  return 0;
}
