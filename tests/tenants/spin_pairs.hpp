// The pairs that tenant-spin runs, and the limits under which each must finish. For the tests and the bench.
#pragma once

#include <string>
#include <vector>

namespace headgate::tenant {

struct SpinPair {
  const char* kind;     // of tenant-spin --pair
  const char* profile;  // of a node that has what the pair needs
};
inline constexpr SpinPair kSpinPairs[] = {
    {"streams", "tiny"}, {"threads", "tiny"}, {"processes", "tiny"}, {"gpus", "l40s-x2"}};
inline constexpr unsigned kSpinPercents[] = {5, 25, 50, 95, 100};

inline std::vector<std::string> spin_words(const std::string& program, const SpinPair& pair) {
  return {program, "--pair", pair.kind, "--rounds", "4", "--timeout-ms", "30000"};
}

}  // namespace headgate::tenant
