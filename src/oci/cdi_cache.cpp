#include "oci/cdi_cache.hpp"

#include <algorithm>
#include <map>

namespace headgate::oci {
namespace {

struct Claim {
  const CdiFile* file;
  std::string problem = {};
};

// Resolves the claims of several files on one name.
void settle(std::vector<Claim>& claims) {
  std::ranges::sort(claims, {}, [](const Claim& claim) { return claim.file->path; });
  const CdiFile* highest = claims.front().file;
  const Claim* conflict = nullptr;
  for (Claim& claim : claims) {
    if (claim.file->priority > highest->priority) highest = claim.file;
    for (const Claim& other : claims) {
      if (&other == &claim || other.file->priority != claim.file->priority) continue;
      claim.problem = "in conflict with " + other.file->path;
      conflict = &claim;
    }
  }
  for (Claim& claim : claims) {
    if (!claim.problem.empty()) continue;
    if (conflict != nullptr) claim.problem = "in conflict: " + conflict->file->path + " is " + conflict->problem;
    else if (claim.file != highest) claim.problem = "shadowed by " + highest->path;
  }
}

}  // namespace

std::vector<CdiDevice> resolve(const std::vector<CdiFile>& files) {
  std::map<std::string, std::vector<Claim>> names;
  for (const CdiFile& file : files) {
    if (!file.document) continue;
    for (const Device& device : file.document->devices)
      names[file.document->kind + "=" + device.name].push_back({.file = &file});
  }
  std::vector<CdiDevice> all;
  for (auto& [name, claims] : names) {
    settle(claims);
    for (const Claim& claim : claims)
      all.push_back(
          {.name = name, .path = claim.file->path, .version = claim.file->document->version, .problem = claim.problem});
  }
  return all;
}

}  // namespace headgate::oci
