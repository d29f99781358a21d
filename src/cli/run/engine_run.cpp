#include "cli/run/engine_run.hpp"

#include <unistd.h>

#include <cerrno>

#include "cli/share/container_lines.hpp"
#include "cli/share/daemon.hpp"
#include "oci/cdi_names.hpp"
#include "oci/share_device.hpp"
#include "snapshot/json.hpp"

namespace headgate::cli {
namespace {

constexpr int kEngineRefused = 125;

// Without a daemon the share's file still stands, so containers start.
Result<void> check_engine_share(const std::string& name) {
  const auto daemon = TRY(find_daemon());
  if (!daemon) return {};
  const std::string reply = TRY(ask(*daemon, "GET", "/v1/shares/" + name));
  const auto share = TRY(snapshot::from_json<snapshot::Share>(reply));
  if (const std::string trouble = cdi_trouble(share); !trouble.empty())
    return fail(ErrorCode::unsupported, "the share '" + harmless(name) + "' can be given to no container: " + trouble,
                "headgate share show " + harmless(name));
  return {};
}

}  // namespace

Result<EngineLine> engine_line(const std::string& engine, const std::vector<std::string>& words) {
  const std::string usage = "headgate " + engine + " run --share NAME [OPTIONS] IMAGE [COMMAND...]";
  if (words.empty() || words.front() != "run")
    return fail(ErrorCode::usage, "headgate " + engine + " takes 'run' alone", usage);
  EngineLine line{.share = {}, .words = {engine, "run"}};
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i];
    const bool joined = word.starts_with("--share=");
    // Later ones may be the container's own.
    if (!line.share.empty() || (word != "--share" && !joined)) {
      line.words.push_back(word);
      continue;
    }
    if (!joined && i + 1 == words.size()) return fail(ErrorCode::usage, "--share has no value", usage);
    line.share = joined ? word.substr(8) : words[++i];
    if (!oci::is_device_name(line.share))
      return fail(ErrorCode::usage, "--share '" + harmless(line.share) + "' is no name that containers can be given",
                  "headgate share ls");
    line.words.insert(line.words.end(), {"--device", oci::share_device_name(line.share)});
  }
  if (line.share.empty()) return fail(ErrorCode::usage, "no share is named", usage);
  return line;
}

int run_in_engine(const std::string& engine, const std::vector<std::string>& words, const Voice& voice) {
  const auto refuse = [&](const Error& error) {
    complain(error, voice);
    return kEngineRefused;
  };
  auto line = engine_line(engine, words);
  if (!line) return refuse(line.error());
  if (const auto known = check_engine_share(line->share); !known) return refuse(known.error());
  std::vector<char*> argv;
  for (std::string& word : line->words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  return refuse(fail_errno("cannot execute " + engine, errno).error());
}

}  // namespace headgate::cli
