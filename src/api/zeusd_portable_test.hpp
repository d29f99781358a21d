// The facts of zeusd's own tests (ml-energy/zeus at 75a8b93, zeusd/tests), each under the name it has there, without
// "test_". Those that reach into its process are not here: power_feed_test.cpp has the same of ours.
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
  bool signs = false;  // callers need a token that kPortableKey has signed
};

inline const std::string kPortableKey = "a key of the test, of 32 and more bytes";

[[nodiscard]] std::vector<PortableCase> portable_gpu_cases();
[[nodiscard]] std::vector<PortableCase> portable_cpu_cases();
[[nodiscard]] std::vector<PortableCase> portable_auth_cases();

}  // namespace headgate::api
