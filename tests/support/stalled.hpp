// For programs of the tests: that all is launched, and for how long the program had no processor meanwhile.
#pragma once

#include <dirent.h>

#include <cstdio>
#include <string>

namespace headgate::e2e {

// How long the threads of this process were ready to run and had no processor: what the machine's load may cost the
// meter.
inline unsigned long long stalled_ns() {
  unsigned long long sum = 0;
  DIR* threads = ::opendir("/proc/self/task");
  for (dirent* one; threads != nullptr && (one = ::readdir(threads)) != nullptr;) {
    const std::string path = std::string("/proc/self/task/") + one->d_name + "/schedstat";
    unsigned long long ran = 0, waited = 0;
    std::FILE* file = std::fopen(path.c_str(), "r");
    if (file == nullptr) continue;
    if (std::fscanf(file, "%llu %llu", &ran, &waited) == 2) sum += waited;
    std::fclose(file);
  }
  if (threads != nullptr) ::closedir(threads);
  return sum;
}

inline void say_launched() {
  std::printf("launched, stalled %llu ns\n", stalled_ns());
  std::fflush(stdout);
}

}  // namespace headgate::e2e
