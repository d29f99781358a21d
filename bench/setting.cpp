#include "setting.hpp"

#include <sys/stat.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>

namespace headgate::bench {

namespace {

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + with.size())) {
    text.replace(at, what.size(), with);
  }
  return text;
}

bool concerns(const std::string& value, const char* what) { return value.find(what) != std::string::npos; }

}  // namespace

Result<Candidate> parse_candidate(const std::string& text) {
  const auto bad = [&text] {
    return fail(
        ErrorCode::usage, "'" + text + "' is not a library to measure",
        "write NAME=LIB.so[,VAR=VALUE...]; {percent} and {bytes} stand for the limits, {dir} for a fresh directory");
  };
  std::vector<std::string> parts{""};
  for (const char c : text) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  Candidate candidate;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto equals = parts[i].find('=');
    if (equals == std::string::npos || equals == 0) {
      return bad();
    }
    const std::string name = parts[i].substr(0, equals), value = parts[i].substr(equals + 1);
    if (i > 0) {
      candidate.environment.emplace_back(name, value);
    } else if (value.empty()) {
      return bad();
    } else {
      candidate.name = name;
      candidate.library = value;
    }
  }
  struct stat facts{};
  if (::stat(candidate.library.c_str(), &facts) != 0) {
    return fail_errno("the library " + candidate.library, errno);
  }
  // The child has a different working directory, so make the path absolute.
  candidate.library = std::filesystem::absolute(candidate.library);
  return candidate;
}

load::ChildSpec child_of(const Setting& setting, const Candidate& candidate, const std::string& driver_dir,
                         const std::string& case_name, Limits limits, std::vector<std::string> argv) {
  load::ChildSpec spec{.argv = std::move(argv)};
  spec.without = {"HEADGATE_*", "CUDA_*", "TENSOR_FUSION*", "LD_PRELOAD", "LIBCUDA_LOG_LEVEL", "LOGGER_LEVEL"};
  spec.environment.emplace_back("LD_LIBRARY_PATH", driver_dir);
  spec.environment.emplace_back("HEADGATE_SIM_DIR", node_of(setting, case_name));
  spec.environment.emplace_back("HEADGATE_RUNTIME_DIR", runtime_of(setting, case_name));
  if (candidate.library.empty()) {
    return spec;
  }
  spec.environment.emplace_back("LD_PRELOAD", candidate.library);
  for (const auto& [name, value] : candidate.environment) {
    if ((concerns(value, "{percent}") && limits.percent == 0) || (concerns(value, "{bytes}") && limits.bytes == 0)) {
      continue;
    }
    std::string filled = replaced(value, "{percent}", std::to_string(limits.percent));
    filled = replaced(filled, "{bytes}", std::to_string(limits.bytes));
    spec.environment.emplace_back(name, replaced(filled, "{dir}", runtime_of(setting, case_name)));
  }
  return spec;
}

std::string node_of(const Setting& setting, const std::string& case_name) {
  return setting.directory + "/" + case_name + "/node";
}
std::string runtime_of(const Setting& setting, const std::string& case_name) {
  return setting.directory + "/" + case_name + "/run";
}

Result<std::string> make_case(const Setting& setting) {
  static std::atomic<unsigned> next{0};
  const std::string name = "case" + std::to_string(next++);
  for (const std::string& path : {setting.directory + "/" + name, node_of(setting, name), runtime_of(setting, name)}) {
    if (::mkdir(path.c_str(), 0700) != 0) {
      return fail_errno("cannot make the directory " + path, errno);
    }
  }
  return name;
}

void remove_case(const Setting& setting, const std::string& case_name) {
  std::error_code ignored;  // the whole directory is removed at the end anyway
  std::filesystem::remove_all(setting.directory + "/" + case_name, ignored);
}

void progress(const std::string& text) { std::fprintf(stderr, "bench: %s\n", text.c_str()); }

}  // namespace headgate::bench
