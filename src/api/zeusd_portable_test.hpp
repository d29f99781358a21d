// The cases of zeusd's tests (ml-energy/zeus at 75a8b93, zeusd/tests), under their names there without "test_". Those
// that inspect its process are left out; power_feed_test.cpp covers ours.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "api/test_zeusd.hpp"
#include "power/token.hpp"

namespace headgate::api {

struct PortableCase {
  std::string name;
  std::function<void(ZeusdBench&)> check;
  std::vector<power::ApiGroup> groups = ZeusdBench::all_groups().groups;
  bool signs = false;  // callers need a token signed with kPortableKey
};

inline const std::string kPortableKey = "a key of the test, of 32 and more bytes";

[[nodiscard]] std::vector<PortableCase> portable_gpu_cases();
[[nodiscard]] std::vector<PortableCase> portable_cpu_cases();
[[nodiscard]] std::vector<PortableCase> portable_auth_cases();

}  // namespace headgate::api
