#include "oci/cdi_cache.hpp"

#include <algorithm>

#include "base/utf8.hpp"

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

CdiDevices::CdiDevices(std::vector<CdiFile> files) : files_(std::move(files)) {
  std::map<std::string, std::size_t, std::less<>> by_path;
  for (std::size_t i = 0; i < files_.size(); ++i) by_path[files_[i].path] = i;
  for (const CdiDevice& found : resolve(files_)) {
    if (!found.problem.empty()) {
      problems_.emplace(found.name, found.path + " is " + found.problem);
      continue;
    }
    const std::size_t file = by_path[found.path];
    const auto& devices = files_[file].document->devices;
    const std::string_view own = std::string_view(found.name).substr(found.name.find('=') + 1);
    const auto device = std::ranges::find(devices, own, &Device::name);
    places_[found.name] = {.file = file, .device = static_cast<std::size_t>(device - devices.begin())};
  }
}

bool CdiDevices::has_vendor(std::string_view vendor) const {
  return std::ranges::any_of(places_, [&](const auto& place) {
    return place.first.starts_with(vendor) && place.first.substr(vendor.size()).starts_with('/');
  });
}

Result<Edits> CdiDevices::edits_of(std::span<const std::string> names) const {
  std::string missing, why;
  for (const std::string& name : names) {
    if (places_.contains(name)) continue;
    missing += (missing.empty() ? "" : ", ") + printable(name, 200);
    if (const auto problem = problems_.find(name); problem != problems_.end() && why.empty()) why = problem->second;
  }
  for (const CdiFile& file : files_)
    if (!file.document && why.empty()) why = file.path + ": " + file.document.error().message;
  if (!missing.empty()) return fail(ErrorCode::not_found, "unresolvable CDI devices " + missing, why);
  Edits edits;
  std::vector<bool> used(files_.size());
  for (const std::string& name : names) {
    const Place place = places_.find(name)->second;
    const Document& document = *files_[place.file].document;
    if (!used[place.file]) add(edits, document.edits, Repeats::kept);
    used[place.file] = true;
    add(edits, document.devices[place.device].edits, Repeats::kept);
  }
  return edits;
}

}  // namespace headgate::oci
