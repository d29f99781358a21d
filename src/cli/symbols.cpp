#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/doctor.hpp"
#include "cli/elf.hpp"
#include "guest/abi/names.hpp"

namespace headgate::cli {
namespace {

using Json = nlohmann::ordered_json;

bool is_nvml(std::string_view name) { return name.starts_with("nvml"); }
bool is_cuda(std::string_view name) { return name.starts_with("cu"); }

}  // namespace

Result<SymbolReport> compare_symbols(const std::string& library) {
  const ElfFile file = TRY(read_elf(library, true));
  const auto nvml_count = std::ranges::count_if(file.functions, is_nvml);
  const auto cuda_count = std::ranges::count_if(file.functions, is_cuda);
  if (nvml_count == 0 && cuda_count == 0) {
    return fail(ErrorCode::usage, library + " exports no function of the CUDA driver or NVML",
                "accepted: a libcuda.so.1 or libnvidia-ml.so.1");
  }
  const bool nvml = nvml_count > cuda_count;
  SymbolReport report{.library = library,
                      .api = nvml ? "NVML" : "CUDA",
                      .exported = static_cast<std::size_t>(nvml ? nvml_count : cuda_count),
                      .unknown = {},
                      .missing = {}};
  for (const auto& name : file.functions) {
    if (nvml ? is_nvml(name) && abi::find_nvml(name) == nullptr : is_cuda(name) && abi::find_cuda(name) == nullptr)
      report.unknown.push_back(name);
  }
  for (const abi::Name& known : nvml ? abi::nvml_names() : abi::cuda_names()) {
    if (known.kind != abi::Kind::data && !std::ranges::binary_search(file.functions, known.name))
      report.missing.emplace_back(known.name);
  }
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
    for (const auto& name : report.missing) text += "  missing  " + name + "\n";
  }
  return text;
}

std::string symbols_json(const std::vector<SymbolReport>& reports) {
  Json json = {{"schema", "headgate.symbols/v1"}, {"libraries", Json::array()}};
  for (const auto& report : reports) {
    json["libraries"].push_back({{"library", report.library},
                                 {"api", report.api},
                                 {"exported", report.exported},
                                 {"unknown", report.unknown},
                                 {"missing", report.missing}});
  }
  return json.dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

}  // namespace headgate::cli
