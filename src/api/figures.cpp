#include "api/figures.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>

namespace headgate::api {

void Tally::look(const snapshot::Snapshot& picture) {
  const std::scoped_lock lock(mutex_);
  const std::uint64_t before = std::exchange(looked_ns_, picture.taken_ns);
  if (before == 0 || picture.taken_ns <= before || picture.node.nvml_released) return;
  const double seconds = std::min(static_cast<double>(picture.taken_ns - before) / 1e9, kLongestGap);
  for (const auto& gpu : picture.gpus) {
    for (const auto& reason : gpu.throttle_reasons) sums_.throttled_seconds[{gpu.uuid, reason}] += seconds;
  }
}

void Tally::note(const snapshot::Event& event) {
  const std::scoped_lock lock(mutex_);
  ++sums_.events[event.kind];
}

void Tally::connected(std::uint64_t clients) {
  const std::scoped_lock lock(mutex_);
  sums_.clients = clients;
}

void Tally::scraped(double seconds) {
  const std::scoped_lock lock(mutex_);
  sums_.scrape_seconds = seconds;
}

Tally::Sums Tally::sums() const {
  const std::scoped_lock lock(mutex_);
  return sums_;
}

void read_process_figures(DaemonFigures& figures) {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  figures.now_ns = static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
  rusage usage{};
  if (::getrusage(RUSAGE_SELF, &usage) == 0) {
    const auto seconds = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
    };
    figures.cpu_seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  }
  // statm, proc(5): sizes in pages, the second is the resident set.
  std::uint64_t whole = 0, resident = 0;
  if (std::ifstream("/proc/self/statm") >> whole >> resident)
    figures.resident_bytes = resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  std::error_code error;
  std::uint64_t files = 0;
  for (std::filesystem::directory_iterator at("/proc/self/fd", error), end; !error && at != end; at.increment(error))
    ++files;
  if (!error && files > 0) figures.open_files = files - 1;  // one is this look's own
}

}  // namespace headgate::api
