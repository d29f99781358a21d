#include "api/scheduler.hpp"

#include <nlohmann/json.hpp>

#include "node/processes.hpp"

namespace headgate::api {
namespace {

using Json = nlohmann::ordered_json;
using channel::Decision;

std::string text_of(const Json& json) { return json.dump(-1, ' ', true, Json::error_handler_t::replace); }

Json devices_of(const tenancy::Share& share) {
  Json all = Json::array();
  for (const auto& device : share.devices) {
    all.push_back({{"uuid", device.uuid},
                   {"memory_limit_bytes", device.memory_limit_bytes ? Json(*device.memory_limit_bytes) : Json()},
                   {"compute_guarantee_ratio", device.guarantee_ppm / 1e6},
                   {"compute_ceiling_ratio", device.ceiling_ppm / 1e6}});
  }
  return all;
}

// Returns the scheduler's words, cut to what fits in the refusal sent to the process (ledger::Refuse).
std::string words_of(const Decision& decision) {
  constexpr std::size_t kMaxOfAReason = 160;
  return tenancy::escape_untrusted(decision.reason, kMaxOfAReason);
}

std::string name_of(const tenancy::TenantProcess& tenant) {
  return "process " + std::to_string(tenant.process.pid) + " (" + tenancy::escape_untrusted(tenant.process.command) +
         ")";
}

}  // namespace

tenancy::RegistrationServer::TakeBack Scheduler::admit(const tenancy::Share& share,
                                                       const tenancy::TenantProcess& tenant,
                                                       std::function<void(Result<void>)> decide) {
  const auto tell = [this, name = share.name, owner = share.owner_uid, pid = tenant.process.pid](
                        const char* kind, const char* severity, std::string text) {
    events_.add({.kind = kind,
                 .severity = severity,
                 .share = name,
                 .pid = pid,
                 .uid = owner,
                 .owner_uid = owner,
                 .text = std::move(text)});
  };
  const std::string who = name_of(tenant), where = " to " + share.name;
  const Json payload = {{"share", share.name},
                        {"pid", tenant.process.pid},
                        {"command", tenant.process.command},
                        {"uid", tenant.uid},
                        {"where", node::where_text(tenant.where)},
                        {"devices", devices_of(share)}};
  const auto taken_back = std::make_shared<std::string>();  // why
  const auto asked = channel::ask(
      channel_,
      {.client = kClient,
       .kind = "admit",
       .payload = text_of(payload),
       .time_to_live = patience_,
       .lane = "uid " + std::to_string(tenant.user.value_or(tenant.uid))},
      [tell, who, where, decide, taken_back](const Decision& decision) {
        // The question was withdrawn: there is no verdict, and no caller waits for one.
        if (!taken_back->empty())
          return tell("admit.withdrawn", "info",
                      "the question whether to admit " + who + where + " was withdrawn: " + *taken_back);
        const std::string said = words_of(decision);
        switch (decision.verdict) {
          case Decision::Verdict::allow:
            tell("admit.allowed", "info", who + " was admitted" + where + (said.empty() ? "" : ": " + said));
            return decide({});
          case Decision::Verdict::deny:
            tell("admit.denied", "warn", who + " was not admitted" + where + ": " + said);
            return decide(fail(ErrorCode::denied, "the scheduler said no" + (said.empty() ? "" : ": " + said)));
          case Decision::Verdict::no_answer: break;
        }
        tell("admit.denied", "warn", who + " was not admitted" + where + ", because no answer came: " + said);
        decide(fail(ErrorCode::denied, "no scheduler said yes: " + said));
      });
  if (!asked) {
    tell("admit.denied", "warn", who + " was not admitted" + where + ": " + asked.error().message);
    const bool later = asked.error().code == ErrorCode::no_capacity;
    decide(fail(later ? ErrorCode::no_capacity : ErrorCode::denied,
                "the scheduler could not be asked: " + asked.error().message + (later ? ": try again" : "")));
    return {};
  }
  const bool heard = channel_.listeners(kClient) > 0 || channel_.find(*asked)->attempt > 0;
  tell("admit.asked", heard ? "info" : "warn",
       who + " asks for admission" + where + "; the scheduler is asked" +
           (heard ? "" : ", but none is connected: refused in " + std::to_string(patience_.count() / 1000) + " s"));
  return [this, id = *asked, taken_back](const std::string& why) {
    *taken_back = why;
    channel_.cancel(id);
  };
}

void Scheduler::tell_of_want(const node::MemoryShortage& shortage, const tenancy::Share& share,
                             std::chrono::milliseconds waits, std::function<void()> denied) {
  if (open_wants_.contains(shortage.share)) return;
  const Json payload = {{"share", shortage.share},
                        {"uuid", shortage.uuid},
                        {"pid", shortage.pid},
                        {"wanted_bytes", shortage.bytes},
                        {"used_bytes", shortage.used_bytes},
                        {"of_card", shortage.of_card},
                        {"waits_ms", waits.count()},
                        {"asked_to_trim", shortage.asked}};
  const auto moot = std::make_shared<bool>(false);
  const auto asked = channel::ask(
      channel_,
      {.client = kClient, .kind = "memory", .payload = text_of(payload), .time_to_live = waits, .lane = "memory"},
      [this, moot, share = shortage.share, owner = share.owner_uid,
       denied = std::move(denied)](const Decision& decision) {
        if (*moot) return;
        open_wants_.erase(share);
        if (decision.verdict != Decision::Verdict::deny) return;
        events_.add({.kind = "memory.denied",
                     .severity = "warn",
                     .share = share,
                     .owner_uid = owner,
                     .text = "allocations of " + share + " that wait for memory were denied: " + words_of(decision)});
        denied();
      });
  if (asked) open_wants_[shortage.share] = {*asked, moot};
}

void Scheduler::forget(const std::string& share) {
  const auto want = open_wants_.extract(share);
  if (!want) return;
  *want.mapped().moot = true;
  channel_.cancel(want.mapped().question);
}

}  // namespace headgate::api
