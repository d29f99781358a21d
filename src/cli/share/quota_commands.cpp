// `headgate quota`: what a user or a group may have in all.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json.hpp"
#include "base/units.hpp"
#include "base/user_name.hpp"
#include "cli/commands.hpp"
#include "cli/share/daemon.hpp"
#include "cli/share/order.hpp"
#include "cli/term/records.hpp"
#include "cli/view/names.hpp"
#include "http/codec.hpp"

namespace headgate::cli {
namespace {

using Json = nlohmann::ordered_json;

Result<std::string> quota_lines(const http::Endpoint& daemon, const std::string& reply, const Voice& voice) {
  const Json list = parse_json(reply);
  Records records{.schema = "headgate.quota/v1",
                  .pattern = compact_json(picked(
                      Json::object(), "user group everyone memory_bytes compute_ratio shares ttl_ns weight class")),
                  .objects = {}};
  for (const Json& quota : list) records.objects.push_back(compact_json(quota));
  return lines(records, origin_of(TRY(snapshot_of(daemon))), voice, true);
}

Result<std::string> quota_text(const http::Endpoint& daemon, const Voice& voice, const std::string& reply) {
  const auto snapshot = TRY(snapshot_of(daemon));
  if (voice.format == Format::json) return enclosed_text("headgate.quotas/v1", "quotas", reply, snapshot);
  const std::string heading = stamp(snapshot, voice);
  const Json json = parse_json(reply);
  std::vector<std::vector<std::string>> rows = {
      {"FOR", "\tMEMORY", "\tCOMPUTE", "\tSHARES", "\tENDS AFTER", "\tWEIGHT", "CLASS"}};
  for (const Json& quota : json) {
    const std::string who = quota.contains("user")    ? "user " + user_name(quota["user"].get<std::uint32_t>())
                            : quota.contains("group") ? "group " + group_name(quota["group"].get<std::uint32_t>())
                                                      : "everyone";
    const auto cell = [&](const char* key, auto&& text) {
      return "\t" + (quota.contains(key) && quota[key].is_number() ? text(quota[key]) : std::string("-"));
    };
    rows.push_back({who, cell("memory_bytes", [](const Json& v) { return bytes_text(v.get<std::uint64_t>()); }),
                    cell("compute_ratio", [](const Json& v) { return percent_of(v.get<double>()); }),
                    cell("shares", [](const Json& v) { return compact_json(v); }),
                    cell("ttl_ns", [](const Json& v) { return duration_text(v.get<std::uint64_t>()); }),
                    cell("weight", [](const Json& v) { return compact_json(v); }),
                    quota.contains("class") && quota["class"].is_string() ? quota["class"].get<std::string>() : "-"});
  }
  return heading + (rows.size() == 1 ? "there are no quotas\n" : table(rows, voice));
}

Result<int> quota_ls(const Call& call) {
  const http::Endpoint daemon = TRY(need_daemon());
  const std::string reply = TRY(ask(daemon, "GET", "/v1/quotas"));
  const Format format = call.voice.format;
  if (format == Format::jsonl || format == Format::csv) return show(quota_lines(daemon, reply, call.voice));
  return show(quota_text(daemon, call.voice, reply));
}

Result<int> quota_set(const Call& call, const Order& order) {
  const http::Endpoint daemon = TRY(need_daemon());
  const bool names_a_limit = std::ranges::any_of(order, [](const auto& said) {
    return said.first != "user" && said.first != "group" && said.first != "everyone";
  });
  if (!names_a_limit)
    return fail(ErrorCode::usage, "quota set: no limit was named",
                "such as: headgate quota set --user NAME --mem 24GiB; none takes one back, quota rm all of them");
  const std::string reply = TRY(ask(daemon, "PATCH", "/v1/quotas", body_of(order)));
  return show(quota_text(daemon, call.voice, "[" + reply + "]"));
}

Result<int> quota_rm(const Call& call, const Order& order) {
  const http::Endpoint daemon = TRY(need_daemon());
  std::string query;
  for (const auto& [key, value] : order) query += (query.empty() ? "?" : "&") + key + "=" + http::escape(value);
  TRY(ask(daemon, "DELETE", "/v1/quotas" + query));
  return show_done(call, "headgate.quota_rm/v1");
}

void add_everyone(Options& options, Order& order, const char* summary) {
  options.flag("--everyone", summary, [&order](bool on) { order["everyone"] = on ? "true" : "false"; });
}

void add_quota_set(Options& options, Order& order) {
  order_option(options, order, {"--user", "user", "USER", "for one user"});
  order_option(options, order, {"--group", "group", "GROUP", "for a group's members together"});
  add_everyone(options, order, "for each user except root, unless the user has another");
  for (const OrderOption& option : std::initializer_list<OrderOption>{
           {"-m,--mem", "mem", "SIZE", "memory on all GPUs: 24GiB, none"},
           {"-c,--compute", "compute", "PART", "GPU time, 100% for each GPU: 50%, 200%, none"},
           {"--shares", "shares", "N", "number of shares, none"},
           {"--ttl", "ttl", "TIME", "longest time to live of each share: 8h, none"},
           {"--weight", "weight", "N", "largest weight of a share: 1 to 1000, none (users have 100)"},
           {"--class", "class", "CLASS",
            "highest class of a share: best-effort, normal, latency, none (users have normal)"}})
    order_option(options, order, option);
  options.footer = "headgate quota set --user alice --mem 24GiB --compute 100%";
}

void add_quota_rm(Options& options, Order& order) {
  order_option(options, order, {"--user", "user", "USER", "of one user"});
  order_option(options, order, {"--group", "group", "GROUP", "of a group"});
  add_everyone(options, order, "the one for everyone");
}

}  // namespace

Commands quota_commands() {
  return {parent_command(kManage, "quota", "limit the total of a user or a group"),
          plain_command(
              kCommands, "quota ls", "list the quotas that apply to you", quota_ls, Reads::sound,
              [](Options& options) { options.formats = {Format::table, Format::json, Format::jsonl, Format::csv}; }),
          command<Order>(kCommands, "quota set", "create or change a quota (administrators)", add_quota_set, quota_set),
          command<Order>(kCommands, "quota rm", "remove a quota (administrators)", add_quota_rm, quota_rm)};
}

}  // namespace headgate::cli
