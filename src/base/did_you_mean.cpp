#include "base/did_you_mean.hpp"

#include <algorithm>

namespace headgate {
namespace {

std::size_t slips(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      const std::size_t changed = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, changed});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

}  // namespace

std::string did_you_mean(std::string_view typed, const std::vector<std::string>& words) {
  constexpr std::size_t kLongest = 32;  // longer than any of our words; input may be of any length
  if (typed.size() > kLongest) return {};
  std::string nearest;
  std::size_t fewest = typed.size() >= 5 ? 3 : 2;
  for (const std::string& word : words) {
    const std::size_t count = slips(typed, word);
    if (count < std::min(fewest, word.size())) fewest = count, nearest = word;
  }
  return nearest;
}

}  // namespace headgate
