#include "api/readiness.hpp"

#include "observe/lost_gpus.hpp"

namespace headgate::api {
namespace {

std::string seconds_text(std::chrono::nanoseconds time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count()) + " s";
}

std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t kNamed = 5;
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < kNamed; ++i) text += (i == 0 ? "" : ", ") + names[i];
  return text + (names.size() > kNamed ? " and " + std::to_string(names.size() - kNamed) + " more" : "");
}

std::vector<Error> reasons(const Health& health) {
  std::vector<Error> all;
  if (health.driver_silence > observe::kDriverSilence) {
    all.push_back({ErrorCode::unreachable, "the driver has not answered for " + seconds_text(health.driver_silence),
                   "see nvidia-smi and dmesg; after 'headgate gpu release' it is taken again within a minute"});
  } else if (health.driver_answered && health.gpus == 0) {
    all.push_back({ErrorCode::unreachable, "the driver counts no GPU", "see nvidia-smi and dmesg"});
  } else if (health.driver_answered && health.silent_gpus == health.gpus) {
    all.push_back({ErrorCode::unreachable, "none of the driver's GPUs answers (" + std::to_string(health.gpus) + ")",
                   "see nvidia-smi and dmesg: mostly a reset or a reboot"});
  }
  if (!health.shut.empty()) {
    const std::size_t count = health.shut.size();
    const std::string which =
        health.tells_names ? some_of(health.shut) : std::to_string(count) + (count == 1 ? " share" : " shares");
    all.push_back({ErrorCode::failed, "programs cannot enter " + which + ": the socket is gone",
                   "it is tried again each second, and headgated's log says what keeps it (running programs go on)"});
  }
  if (health.store) all.push_back(*health.store);
  if (health.room) all.push_back(*health.room);
  if (health.arbiter_silence > kArbiterSilence) {
    all.push_back({ErrorCode::failed, "the arbiter has not looked for " + seconds_text(health.arbiter_silence),
                   "systemctl restart headgated (running programs go on under their guarantees)"});
  }
  return all;
}

}  // namespace

Result<void> readiness(const Health& health) {
  const std::vector<Error> all = reasons(health);
  if (all.empty()) return {};
  Error whole = all.front();
  for (std::size_t i = 1; i < all.size(); ++i) {
    whole.message += "; " + all[i].message;
    if (!all[i].hint.empty()) whole.hint += (whole.hint.empty() ? "" : "; ") + all[i].hint;
  }
  return std::unexpected(std::move(whole));
}

}  // namespace headgate::api
