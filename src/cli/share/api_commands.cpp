// `headgate metrics` and `headgate api`: what headgated says of itself.
#include "cli/commands.hpp"
#include "cli/share/daemon.hpp"

namespace headgate::cli {
namespace {

Result<int> show_reply(const char* target) {
  const http::Endpoint daemon = TRY(need_daemon());
  return show(TRY(ask(daemon, "GET", target)) + "\n");
}

Result<int> metrics(const Call& call) {
  return show_reply(call.voice.format == Format::jsonl ? "/metrics/json" : "/metrics");
}

}  // namespace

Commands api_commands() {
  // A Prometheus page has no JSON form.
  const auto forms = [](Options& options) { options.formats = {Format::table, Format::jsonl}; };
  return {plain_command(kPlumbing, "metrics", "print headgated's metrics for Prometheus", metrics, Reads::sound, forms),
          parent_command(kPlumbing, "api", "describe headgated's HTTP API"),
          plain_command(kCommands, "api schema", "print the OpenAPI document",
                        [](const Call&) { return show_reply("/v1/openapi.json"); })};
}

}  // namespace headgate::cli
