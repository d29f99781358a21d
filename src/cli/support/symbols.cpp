#include <algorithm>
#include <cctype>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/elf.hpp"
#include "cli/support/doctor.hpp"
#include "guest/abi/names.hpp"

namespace headgate::cli {
namespace {

using Json = nlohmann::ordered_json;

bool is_nvml(std::string_view name) { return name.starts_with("nvml"); }
bool is_cuda(std::string_view name) { return name.starts_with("cu"); }

bool is_identifier(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

// Reads a file with one name per line; nothing if it contains anything else.
std::optional<std::vector<std::string>> read_list(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> names;
  for (std::string line; std::getline(file, line);) {
    if (!is_identifier(line)) return std::nullopt;
    names.push_back(line);
  }
  if (names.empty()) return std::nullopt;
  std::ranges::sort(names);
  return names;
}

struct Explained {
  std::string_view name, why;
};
constexpr Explained kExplained[] = {
#define UNGOVERNED(name, why) {name, why},
#include "cli/support/unhooked.def"
};

bool explained(std::string_view name) {
  return std::ranges::any_of(kExplained, [&](const Explained& one) {
    return one.name.ends_with('*') ? name.starts_with(one.name.substr(0, one.name.size() - 1)) : name == one.name;
  });
}

// Judged by kind or by name, because the table may classify a function as harmless by mistake.
bool takes_or_launches(const abi::Name& known) {
  if (known.kind == abi::Kind::alloc || known.kind == abi::Kind::launch) return true;
  constexpr std::string_view kTelling[] = {"Alloc",  "Create", "Launch", "Import",      "Register", "Load",
                                           "Upload", "Bind",   "Retain", "Instantiate", "GraphAdd", "EnablePeer"};
  return std::ranges::any_of(kTelling, [&](std::string_view part) { return known.name.contains(part); });
}

bool governed(const abi::Name& known) { return known.has_signature && known.kind != abi::Kind::pass; }
bool is_function(const abi::Name& known) { return known.kind != abi::Kind::data; }

}  // namespace

Result<SymbolReport> compare_symbols(const std::string& library) {
  auto listed = read_list(library);
  const std::vector<std::string> functions = listed ? std::move(*listed) : TRY(read_elf(library, true)).functions;
  const auto nvml_count = std::ranges::count_if(functions, is_nvml);
  const auto cuda_count = std::ranges::count_if(functions, is_cuda);
  if (nvml_count == 0 && cuda_count == 0)
    return fail(ErrorCode::usage, library + " exports no function of the CUDA driver or NVML",
                "accepted: a libcuda.so.1 or libnvidia-ml.so.1, or a list of their names");
  const bool nvml = nvml_count > cuda_count;
  SymbolReport report{.library = library,
                      .api = nvml ? "NVML" : "CUDA",
                      .exported = static_cast<std::size_t>(nvml ? nvml_count : cuda_count),
                      .unknown = {},
                      .missing = {},
                      .unexplained = {}};
  for (const auto& name : functions) {
    if (nvml ? !is_nvml(name) : !is_cuda(name)) continue;
    const abi::Name* known = nvml ? abi::find_nvml(name) : abi::find_cuda(name);
    if (known == nullptr) report.unknown.push_back(name);
    else if (is_function(*known) && !governed(*known) && takes_or_launches(*known) && !explained(name))
      report.unexplained.push_back(name);
  }
  for (const abi::Name& known : nvml ? abi::nvml_names() : abi::cuda_names())
    if (known.kind != abi::Kind::data && !std::ranges::binary_search(functions, known.name))
      report.missing.emplace_back(known.name);
  return report;
}

std::string symbols_text(const std::vector<SymbolReport>& reports, const Voice& voice) {
  std::string text;
  for (const auto& report : reports) {
    text += bold(report.library + ": " + std::to_string(report.exported) + " functions of " + report.api + ", " +
                     std::to_string(report.unknown.size()) + " unknown to headgate, " +
                     std::to_string(report.missing.size()) + " that it knows are not there",
                 voice) +
            "\n";
    for (const auto& name : report.unknown) text += "  unknown  " + name + "\n";
    for (const auto& name : report.unexplained) text += "  passes   " + name + "\n";
    for (const auto& name : report.missing) text += "  missing  " + name + "\n";
  }
  return text;
}

std::string symbols_json(const std::vector<SymbolReport>& reports) {
  Json json = {{"schema", "headgate.symbols/v1"}, {"libraries", Json::array()}};
  for (const auto& report : reports)
    json["libraries"].push_back({{"library", report.library},
                                 {"api", report.api},
                                 {"exported", report.exported},
                                 {"unknown", report.unknown},
                                 {"unexplained", report.unexplained},
                                 {"missing", report.missing}});
  return pretty_json(json);
}

}  // namespace headgate::cli
