#include "tenancy/unattended.hpp"

#include <algorithm>

#include "guest/ledger/layout.hpp"

namespace headgate::tenancy {
namespace {

std::vector<std::uint32_t> scaled_promises(std::span<const UnattendedClaim> claims, std::uint64_t promised_ppm) {
  std::vector<std::uint32_t> parts;
  for (const UnattendedClaim& claim : claims)
    parts.push_back(static_cast<std::uint32_t>(std::uint64_t{claim.promise_ppm} * ledger::kWholeGpu / promised_ppm));
  return parts;
}

}  // namespace

std::vector<std::uint32_t> divide_unattended(std::span<const UnattendedClaim> claims) {
  if (claims.size() == 1) return {claims.front().ceiling_ppm};
  std::uint64_t promised_ppm = 0;
  for (const UnattendedClaim& claim : claims) promised_ppm += claim.promise_ppm;
  if (promised_ppm > ledger::kWholeGpu) return scaled_promises(claims, promised_ppm);

  std::vector<std::uint32_t> parts;
  std::vector<std::size_t> takers;
  const bool idle = std::ranges::none_of(claims, &UnattendedClaim::has_processes);
  std::uint64_t weights = 0;
  for (std::size_t i = 0; i < claims.size(); ++i) {
    parts.push_back(claims[i].promise_ppm);
    if ((!claims[i].has_processes && !idle) || claims[i].promise_ppm >= claims[i].ceiling_ppm) continue;
    takers.push_back(i);
    weights += claims[i].weight;
  }
  const auto room_ppm = [&](std::size_t i) { return std::uint64_t{claims[i].ceiling_ppm - parts[i]}; };
  // First those that lose most of their weight's part to their ceiling: then what the others get is known.
  std::ranges::sort(takers, [&](std::size_t a, std::size_t b) {
    return room_ppm(a) * claims[b].weight < room_ppm(b) * claims[a].weight;
  });
  std::uint64_t left_ppm = ledger::kWholeGpu - promised_ppm;
  const auto give = [&](std::size_t i, std::uint64_t ppm) {
    const std::uint64_t given = std::min(ppm, room_ppm(i));
    parts[i] += static_cast<std::uint32_t>(given);
    left_ppm -= given;
  };
  for (const std::size_t i : takers) {
    give(i, left_ppm * claims[i].weight / weights);
    weights -= claims[i].weight;
  }
  for (const std::size_t i : takers) give(i, left_ppm);  // what rounding left
  return parts;
}

}  // namespace headgate::tenancy
