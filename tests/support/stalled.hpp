// For test programs: reports that all is launched, and how long the program had no CPU meanwhile.
#pragma once

#include <dirent.h>

#include <cstdio>
#include <string>

namespace headgate::e2e {

// Returns how long this process's threads were runnable without a CPU. The machine's load may cost the meter that much.
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
