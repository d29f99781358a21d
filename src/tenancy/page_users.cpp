#include "tenancy/page_users.hpp"

#include <unistd.h>

#include <algorithm>
#include <iterator>

namespace headgate::tenancy {

Result<void> PageUsers::none(const std::string& share, const std::string& place, std::uint64_t inode,
                             const std::string& proc) {
  using Answer = identity::MapsSearch::Answer;
  constexpr std::size_t kBytesOfACall = 1u << 20;
  std::size_t bytes = kBytesOfACall;
  for (bool fresh = false;;) {
    for (; next_ < processes_.size(); ++next_, search_.reset()) {
      const identity::Process& process = processes_[next_];
      if (process.pid == static_cast<std::uint32_t>(::getpid())) continue;
      if (!search_) search_.emplace(proc, process.pid, inode, place + "/usage");
      const Answer answer = search_->look(bytes);
      if (answer == Answer::not_yet) {
        return fail(ErrorCode::failed,
                    "the page of the share '" + share + "' is damaged, and who uses it is looked for: " +
                        std::to_string(next_) + " of " + std::to_string(processes_.size()) + " processes do not",
                    "ask again: it goes on from there");
      }
      if (answer != Answer::yes) continue;
      auto used = fail(ErrorCode::conflict,
                       "the share '" + share + "' is in use by process " + std::to_string(process.pid) + " (" +
                           process.command + ")",
                       "end it first: the share's page is damaged, so its other processes are not known");
      *this = {};
      return used;
    }
    // Those that came while earlier calls looked are looked at too.
    if (fresh) return {};
    fresh = true;
    identity::ProcessList list = identity::list_processes(proc);
    if (!list.complete || list.all.empty()) {
      *this = {};
      return fail(ErrorCode::failed,
                  "the page of the share '" + share + "' is damaged, and /proc does not show who uses it",
                  "end its programs, remove " + place + ", start headgated anew, and remove the share then");
    }
    std::erase_if(list.all, [&](const identity::Process& now) {
      return std::ranges::any_of(processes_, [&](const identity::Process& seen) {
        return seen.pid == now.pid && seen.start_time == now.start_time;
      });
    });
    std::ranges::move(list.all, std::back_inserter(processes_));
  }
}

}  // namespace headgate::tenancy
