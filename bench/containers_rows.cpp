#include "containers_rows.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/unique_fd.hpp"
#include "container_shares_row.hpp"
#include "load/child.hpp"
#include "oci/docker_devices.hpp"
#include "oci/share_device.hpp"
#include "runtime/node_facts.hpp"

namespace headgate::bench {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;
using std::chrono::steady_clock;

double quantile(std::vector<double> values, double part) {
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(part * static_cast<double>(values.size() - 1))];
}

double us_since(steady_clock::time_point then) {
  return std::chrono::duration<double, std::micro>(steady_clock::now() - then).count();
}

// A config.json as engines write it, with 100 mounts and variables.
std::string some_config() {
  json config = {{"ociVersion", "1.0.2"},
                 {"root", {{"path", "rootfs"}}},
                 {"process", {{"args", {"/bin/true"}}, {"env", json::array()}, {"cwd", "/"}}},
                 {"annotations", {{"headgate.io/share", "a"}}},
                 {"mounts", json::array()}};
  for (int i = 0; i < 100; ++i) {
    config["process"]["env"].push_back("VARIABLE_" + std::to_string(i) + "=" + std::string(60, 'v'));
    config["mounts"].push_back({{"destination", "/mnt/" + std::to_string(i)},
                                {"type", "bind"},
                                {"source", "/var/lib/some/where/" + std::to_string(i)},
                                {"options", {"rbind", "rprivate", "ro"}}});
  }
  return config.dump();
}

oci::Document document_of_20(int number) {
  oci::Document document{.version = "0.5.0", .kind = "nvidia.com/gpu", .annotations = {}, .devices = {}, .edits = {}};
  for (int i = 0; i < 20; ++i) {
    oci::Edits edits;
    edits.env = {"A=" + std::to_string(i)};
    edits.device_nodes = {{.path = "/dev/nvidia" + std::to_string(i)}};
    edits.mounts = {
        {.host_path = "/usr/lib/a.so", .container_path = "/usr/lib/a.so", .type = {}, .options = {"ro", "bind"}}};
    document.devices.push_back(
        {.name = std::to_string(number) + "-" + std::to_string(i), .annotations = {}, .edits = std::move(edits)});
  }
  return document;
}

Row row(std::string what, std::string reach, std::string value, bool reached, json details) {
  return {.what = std::move(what),
          .reach = std::move(reach),
          .values = {std::move(value)},
          .verdict = reached ? Verdict::reached : Verdict::missed,
          .details = std::move(details)};
}

// A program from its start to its end, in us; negative: it failed.
double time_of(const std::vector<std::string>& words, const UniqueFd* input = nullptr,
               const UniqueFd* errors = nullptr) {
  std::vector<char*> argv;
  for (const std::string& each : words) argv.push_back(const_cast<char*>(each.c_str()));
  argv.push_back(nullptr);
  const auto begin = steady_clock::now();
  pid_t child = 0;
  int status = 1;
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  if (input != nullptr) ::posix_spawn_file_actions_adddup2(&actions, input->get(), STDIN_FILENO);
  if (errors != nullptr) ::posix_spawn_file_actions_adddup2(&actions, errors->get(), STDERR_FILENO);
  const bool started = ::posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), environ) == 0;
  ::posix_spawn_file_actions_destroy(&actions);
  if (!started) return -1;
  ::waitpid(child, &status, 0);
  return status == 0 || errors != nullptr ? us_since(begin) : -1;
}

class Containers {
 public:
  explicit Containers(const Setting& setting) : setting_(setting), directory_(setting.directory + "/containers") {}

  Result<Section> measure() {
    prepare();
    if (auto done = wrapper(); !done) return std::unexpected(done.error());
    hook();
    resident();
    shares_files();
    read_files();
    one_request();
    section_.rows.push_back(container_shares_row(setting_));
    return std::move(section_);
  }

 private:
  // Prepares a share's CDI file and directory, an image with this machine's C library, and a bundle.
  void prepare() const {
    fs::create_directories(directory_ + "/bundle/rootfs/lib");
    fs::create_directories(directory_ + "/cdi");
    fs::create_directories(directory_ + "/shares/a");
    for (const char* library : {"/lib/x86_64-linux-gnu/libc.so.6", "/lib/aarch64-linux-gnu/libc.so.6"}) {
      std::error_code ignored;
      fs::copy_file(library, directory_ + "/bundle/rootfs/lib/libc.so.6", ignored);
    }
    const oci::Document share = oci::share_document({.share = "a",
                                                     .directory = directory_ + "/shares/a",
                                                     .limiter = setting_.ours.library,
                                                     .preload_list = directory_ + "/list",
                                                     .driver = {}});
    std::ofstream(directory_ + "/cdi/" + oci::share_file_name("a")) << oci::to_json(share);
    set_program("/bin/true");
  }
  void set_program(const std::string& program) const {
    std::ofstream(directory_ + "/config.toml")
        << "[cdi]\ndir = '" << directory_ << "/cdi'\n[runtime]\nprogram = '" << program << "'\n";
  }
  [[nodiscard]] std::vector<std::string> create() const {
    return {setting_.runtime_program,
            "--headgate-config",
            directory_ + "/config.toml",
            "create",
            "--bundle",
            directory_ + "/bundle",
            "id"};
  }
  void write_config() const { std::ofstream(directory_ + "/bundle/config.json") << some_config(); }

  // Interleaves both, so that they run under the same conditions.
  Result<void> wrapper() {
    progress("containers: headgate-oci in front of a runtime");
    std::vector<double> alone, with;
    for (int i = 0; i < (setting_.quick ? 100 : 500); ++i) {
      alone.push_back(time_of({"/bin/true"}));
      write_config();
      with.push_back(time_of(create()));
    }
    if (std::ranges::min(with) < 0 || std::ranges::min(alone) < 0)
      return fail(ErrorCode::failed, "headgate-oci create failed");
    const double p50 = (quantile(with, 0.5) - quantile(alone, 0.5)) / 1000;
    const double p99 = (quantile(with, 0.99) - quantile(alone, 0.5)) / 1000;
    section_.rows.push_back(
        {.what = "noise: /bin/true by itself",
         .reach = "",
         .values = {printed("p50 %.2f ms, p99 %.2f ms", quantile(alone, 0.5) / 1000, quantile(alone, 0.99) / 1000)},
         .verdict = Verdict::told,
         .details = nullptr});
    section_.rows.push_back(row("added by headgate-oci to create", "p50 5 ms, p99 15 ms",
                                printed("p50 %.2f ms, p99 %.2f ms", p50, p99), p50 <= 5 && p99 <= 15,
                                {{"p50_ms", p50}, {"p99_ms", p99}}));
    return {};
  }

  // As a createRuntime hook up to the mounts: there it is refused, as there is no process of that number.
  void hook() {
    progress("containers: headgate-oci as a hook");
    write_config();
    const std::string state = directory_ + "/state";
    std::ofstream(state) << R"({"id":"c","pid":4194304,"bundle":")" + directory_ + R"(/bundle"})";
    std::vector<double> times;
    for (int i = 0; i < (setting_.quick ? 100 : 500); ++i) {
      const UniqueFd input(::open(state.c_str(), O_RDONLY | O_CLOEXEC)),
          null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
      times.push_back(
          time_of({setting_.runtime_program, "hook", "--headgate-config", directory_ + "/config.toml"}, &input, &null));
    }
    const double p50 = quantile(times, 0.5) / 1000, p99 = quantile(times, 0.99) / 1000;
    section_.rows.push_back(row("headgate-oci as a hook, without the mounts", "p50 5 ms",
                                printed("p50 %.2f ms, p99 %.2f ms", p50, p99), p50 <= 5,
                                {{"p50_ms", p50}, {"p99_ms", p99}}));
  }

  void shares_files() {
    progress("containers: the CDI files of 1000 shares");
    // /run, where the files and pages lie, is a tmpfs.
    const std::string shm = "/dev/shm/headgate-bench-" + std::to_string(::getpid());
    const std::string folder = ::access("/dev/shm", W_OK) == 0 ? shm : directory_ + "/daemon";
    fs::create_directories(folder + "/cdi");
    const auto end =
        load::run_child({.argv = {setting_.containers_program, folder}}, std::chrono::milliseconds(60'000));
    const json all = end ? json::parse(end->out, nullptr, false) : json();
    fs::remove_all(folder);
    if (!all.is_object()) return;
    const double add = all["add"].value("p50_ms", 1e9), start = all.value("start_ms", 1e9);
    const double mib = all.value("memory_bytes", 1e12) / (1 << 20);
    section_.rows.push_back(row("added to share create by its file", "2 ms",
                                printed("p50 %.2f ms, max %.2f ms", add, all["add"].value("max_ms", 1e9)), add <= 2,
                                all["add"]));
    section_.rows.push_back(row("added by the files of 1,000 shares to READY", "1 s", printed("%.0f ms", start),
                                start <= 1000, {{"ms", start}}));
    section_.rows.push_back(row("kept in headgated for them", "1 MiB", printed("%.2f MiB", mib), mib <= 1, all));
  }

  // Its pipe of errors is full, so that it stands still after its work: there is no program to execute.
  void resident() {
    progress("containers: the memory of headgate-oci");
    set_program(directory_ + "/absent");
    write_config();
    const std::string before = config_text();
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return;
    const std::string page(4096, 'x');
    while (::write(ends[1], page.data(), page.size()) > 0) {
    }
    ::fcntl(ends[1], F_SETFL, 0);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    const auto words = create();
    std::vector<char*> argv;
    for (const std::string& each : words) argv.push_back(const_cast<char*>(each.c_str()));
    argv.push_back(nullptr);
    pid_t child = 0;
    const bool started = ::posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), environ) == 0;
    ::posix_spawn_file_actions_destroy(&actions);
    double kib = 0;
    for (int i = 0; started && i < 2000 && config_text() == before; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::ifstream status("/proc/" + std::to_string(child) + "/status");
    for (std::string line; started && std::getline(status, line);)
      if (line.starts_with("VmHWM:")) kib = std::atof(line.c_str() + 6);
    if (started) ::kill(child, SIGKILL), ::waitpid(child, nullptr, 0);
    for (const int end : ends) ::close(end);
    section_.rows.push_back(row("headgate-oci resident at most", "8 MiB", printed("%.1f MiB", kib / 1024),
                                kib > 0 && kib <= 8 * 1024, {{"bytes", kib * 1024}}));
  }
  [[nodiscard]] std::string config_text() const {
    std::ostringstream text;
    text << std::ifstream(directory_ + "/bundle/config.json").rdbuf();
    return text.str();
  }

  void read_files() {
    progress("containers: 1000 CDI files");
    const std::string folder = directory_ + "/thousand";
    fs::create_directories(folder);
    for (int i = 0; i < 1000; ++i)
      std::ofstream(folder + "/" + std::to_string(i) + ".json") << oci::to_json(document_of_20(i));
    std::vector<double> times;
    for (int i = 0; i < (setting_.quick ? 3 : 9); ++i) {
      const auto begin = steady_clock::now();
      auto files = runtime::read_cdi_directory(folder, 0);
      if (!files || oci::CdiDevices(std::move(*files)).has_vendor("amd.com")) return;
      times.push_back(us_since(begin) / 1000);
    }
    const double ms = quantile(times, 0.5);
    section_.rows.push_back(row("1,000 CDI files of 20 devices read and checked", "200 ms", printed("%.0f ms", ms),
                                ms <= 200, {{"ms", times}}));
  }

  void one_request() {
    progress("containers: one device request");
    oci::DockerNode node;
    node.devices = oci::CdiDevices({{.path = "/f", .priority = 0, .document = document_of_20(0)}});
    node.nvidia_cdi_hook = true;
    node.find_node = [](const std::string&) -> Result<oci::HostNode> {
      return oci::HostNode{.type = 'c', .major = 195, .minor = 0, .mode = 0666};
    };
    const auto config = oci::ContainerConfig::read(R"({"process":{"env":["PATH=/bin"]},"mounts":[]})");
    const auto requests = oci::read_device_requests(R"([{"DeviceIDs":["0-3"],"Capabilities":[["gpu"]]}])");
    if (!config || !requests) return;
    std::vector<double> times;
    for (int i = 0; i < 2000; ++i) {
      const auto begin = steady_clock::now();
      if (!oci::apply_requests(*config, *requests, node)) return;
      times.push_back(us_since(begin));
    }
    const double p50 = quantile(times, 0.5), p99 = quantile(times, 0.99);
    section_.rows.push_back(row("a device request applied, without I/O", "50 us",
                                printed("p50 %.1f us, p99 %.1f us", p50, p99), p50 <= 50,
                                {{"p50_us", p50}, {"p99_us", p99}}));
  }

  const Setting& setting_;
  const std::string directory_;
  Section section_{.title = "CONTAINERS", .columns = {"measured"}, .rows = {}};
};

}  // namespace

Result<Section> containers_section(const Setting& setting) { return Containers(setting).measure(); }

}  // namespace headgate::bench
