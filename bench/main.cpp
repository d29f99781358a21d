// headgate-figures: measures all of headgate's documented figures on this machine and prints them.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "containers_rows.hpp"
#include "cost_rows.hpp"
#include "memory_rows.hpp"
#include "mps_rows.hpp"
#include "noise.hpp"
#include "power_rows.hpp"
#include "share_rows.hpp"
#include "table.hpp"
#include "turns_rows.hpp"

using namespace headgate;

namespace {

constexpr char kUsage[] = R"(headgate-figures: measures headgate's figures over the simulator and a do-nothing driver.

  --quick              a subset, about a minute
  --only=SECTION       cost, share, kinds, response, memory, agreement, pairs, turns, power, mps or
                       containers; more than one may stand
  --case=TEXT          of the rows of share, kinds and turns only those whose name contains TEXT
  --rounds=N           how often everything is measured, interleaved (3)
  --against NAME=LIB.so[,VAR=VALUE...]
                       measures another preload library beside ours; {percent} and {bytes} stand for the limits, {dir}
                       for a directory of the case's own
  --json=FILE          all figures, JSON ("-": on stdout, instead of the table)
  --build=DIR          the build folder (this program's)

The exit status is 0 when everything could be measured, whatever the figures are.
)";

constexpr std::string_view kSections[] = {"cost",  "share", "kinds", "response", "memory",    "agreement",
                                          "pairs", "turns", "power", "mps",      "containers"};

struct Arguments {
  bench::Setting setting;
  std::vector<std::string> sections;
  std::string json_file, build;
  bool help = false;

  [[nodiscard]] bool wants(const std::string& section) const {
    return sections.empty() || std::ranges::find(sections, section) != sections.end();
  }
};

std::string own_build_folder() {
  std::array<char, PATH_MAX> buffer{};
  const ssize_t length = ::readlink("/proc/self/exe", buffer.data(), buffer.size() - 1);
  return length > 0 ? std::filesystem::path(buffer.data()).parent_path().parent_path().string() : "build";
}

Result<Arguments> read_arguments(const std::vector<std::string>& words) {
  Arguments arguments;
  arguments.build = own_build_folder();
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const auto equals = word.find('=');
    const std::string name = word.substr(0, equals);
    std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (word == "--help" || word == "-h") {
      arguments.help = true;
    } else if (word == "--quick") {
      arguments.setting.quick = true;
      arguments.setting.rounds = 1;
    } else if (word == "--against") {
      if (++i == words.size()) {
        return fail(ErrorCode::usage, "--against needs a library", "write --against NAME=LIB.so[,VAR=VALUE...]");
      }
      arguments.setting.peers.push_back(TRY(bench::parse_candidate(words[i])));
    } else if (name == "--against" && !value.empty()) {
      arguments.setting.peers.push_back(TRY(bench::parse_candidate(value)));
    } else if (name == "--only" && std::ranges::find(kSections, value) != std::ranges::end(kSections)) {
      arguments.sections.push_back(value);
    } else if (name == "--case" && !value.empty()) {
      arguments.setting.only_case = value;
    } else if (name == "--json" && !value.empty()) {
      arguments.json_file = value;
    } else if (name == "--build" && !value.empty()) {
      arguments.build = value;
    } else if (name == "--rounds") {
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), arguments.setting.rounds);
      if (error != std::errc{} || end != value.data() + value.size() || arguments.setting.rounds < 1 ||
          arguments.setting.rounds > 100) {
        return fail(ErrorCode::usage, "--rounds '" + value + "' is not accepted", "a whole number from 1 to 100");
      }
    } else {
      return fail(ErrorCode::usage, "'" + word + "' is not accepted", "see headgate-figures --help");
    }
  }
  return arguments;
}

Result<void> find_parts(Arguments& arguments) {
  bench::Setting& setting = arguments.setting;
  const std::string build = std::filesystem::absolute(arguments.build);
  setting.cost_program = build + "/bench/headgate-bench-cost";
  setting.load_program = build + "/lib/headgate-load";
  setting.power_program = build + "/bench/headgate-bench-power";
  setting.mps_program = build + "/bench/headgate-bench-mps";
  setting.containers_program = build + "/bench/headgate-bench-containers";
  setting.real_mps_tool = build + "/real-parts/usr/bin/nvidia-cuda-mps-control";
  setting.memory_program = build + "/bench/headgate-bench-memory";
  setting.spin_program = build + "/tests/tenant-spin";
  setting.daemon_program = build + "/bin/headgated";
  setting.command_program = build + "/bin/headgate";
  setting.runtime_program = build + "/bin/headgate-oci";
  setting.nop_driver_dir = build + "/bench/nop";
  setting.simulator_dir = build + "/lib/sim";
  setting.ours = {.name = "ours",
                  .library = build + "/lib/libheadgate.so",
                  .environment = {{"HEADGATE_COMPUTE", "{percent}%"}, {"HEADGATE_MEM", "{bytes}B"}}};
  for (const std::string& part :
       {setting.cost_program, setting.load_program, setting.memory_program, setting.power_program, setting.mps_program,
        setting.spin_program, setting.daemon_program, setting.command_program, setting.runtime_program,
        setting.nop_driver_dir + "/libcuda.so.1", setting.simulator_dir + "/libcuda.so.1", setting.ours.library}) {
    if (::access(part.c_str(), R_OK) != 0) {
      return fail_errno("a part of the build, " + part, errno, "build everything first: dev/bench does");
    }
  }
  // Short, because sockets of MPS control daemons are several levels below, and a socket path is limited to 107 bytes.
  std::string directory = std::filesystem::temp_directory_path() / "hgf-XXXXXX";
  if (::mkdtemp(directory.data()) == nullptr) {
    return fail_errno("cannot make a directory like " + directory, errno);
  }
  setting.directory = directory;
  return {};
}

Result<bench::Tables> measure(const Arguments& arguments) {
  bench::Tables tables;
  bench::progress("the machine alone: a spinning thread for one second");
  const std::int64_t gap_before = bench::longest_gap_ns();
  bench::NoiseSampler sampler;
  if (arguments.wants("cost")) {
    tables.sections.push_back(TRY(bench::cost_section(arguments.setting)));
  }
  if (arguments.wants("share")) {
    tables.sections.push_back(TRY(bench::share_section(arguments.setting, sampler)));
  }
  if (arguments.wants("kinds")) {
    tables.sections.push_back(TRY(bench::kinds_section(arguments.setting, sampler)));
  }
  if (arguments.wants("response")) {
    tables.sections.push_back(TRY(bench::response_section(arguments.setting)));
  }
  if (arguments.wants("memory")) {
    tables.sections.push_back(TRY(bench::memory_section(arguments.setting)));
  }
  if (arguments.wants("agreement")) {
    tables.sections.push_back(TRY(bench::agreement_section(arguments.setting)));
  }
  if (arguments.wants("pairs")) {
    tables.sections.push_back(TRY(bench::pairs_section(arguments.setting)));
  }
  if (arguments.wants("turns")) {
    tables.sections.push_back(TRY(bench::turns_section(arguments.setting, sampler)));
  }
  if (arguments.wants("power") && arguments.setting.only_case.empty()) {
    tables.sections.push_back(TRY(bench::power_section(arguments.setting)));
  }
  if (arguments.wants("mps") && arguments.setting.only_case.empty()) {
    tables.sections.push_back(TRY(bench::mps_section(arguments.setting)));
  }
  if (arguments.wants("containers") && arguments.setting.only_case.empty()) {
    tables.sections.push_back(TRY(bench::containers_section(arguments.setting)));
  }
  std::erase_if(tables.sections, [](const bench::Section& section) { return section.rows.empty(); });
  if (tables.sections.empty()) {
    return fail(ErrorCode::usage, "--case '" + arguments.setting.only_case + "' names no row of share, kinds or turns",
                "a part of a name in the table, such as 'streams'");
  }
  tables.noise = sampler.stop();
  tables.noise.longest_gap_ns = std::max(gap_before, bench::longest_gap_ns());
  return tables;
}

int complain(const Error& error) {
  std::fprintf(stderr, "headgate-figures: %s\n", error.message.c_str());
  if (!error.hint.empty()) {
    std::fprintf(stderr, "  %s\n", error.hint.c_str());
  }
  return exit_status(error.code);
}

}  // namespace

int main(int argc, char** argv) {
  auto arguments = read_arguments({argv + 1, argv + argc});
  if (!arguments) {
    return complain(arguments.error());
  }
  if (arguments->help) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  if (const auto found = find_parts(*arguments); !found) {
    return complain(found.error());
  }
  const auto tables = measure(*arguments);
  std::error_code ignored;  // a directory that cannot be removed affects no figure
  std::filesystem::remove_all(arguments->setting.directory, ignored);
  if (!tables) {
    return complain(tables.error());
  }
  if (!arguments->json_file.empty() && arguments->json_file != "-") {
    std::ofstream(arguments->json_file) << bench::to_json(*tables);
  }
  std::fputs(arguments->json_file == "-" ? bench::to_json(*tables).c_str() : bench::to_text(*tables).c_str(), stdout);
  return 0;
}
