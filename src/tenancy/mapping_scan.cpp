#include "tenancy/mapping_scan.hpp"

#include <unistd.h>

#include <set>

namespace headgate::tenancy {

Result<void> MappingScan::none(const std::string& share, const std::string& place, std::uint64_t inode,
                               const std::string& proc) {
  using Answer = identity::MapsSearch::Answer;
  constexpr std::size_t kBytesOfACall = 1u << 20;
  std::size_t bytes = kBytesOfACall;
  for (bool fresh = false;;) {
    for (; next_ < processes_.size(); ++next_, search_.reset()) {
      const std::uint32_t pid = processes_[next_].first;
      if (pid == static_cast<std::uint32_t>(::getpid())) continue;
      if (!search_) search_.emplace(proc, pid, inode, place + "/usage");
      const Answer answer = search_->look(bytes);
      if (answer == Answer::not_yet) {
        return fail(ErrorCode::failed,
                    "the page of the share '" + share + "' is damaged, and its users are being looked for: " +
                        std::to_string(next_) + " of " + std::to_string(processes_.size()) + " processes do not",
                    "ask again: it goes on from there");
      }
      if (answer != Answer::yes) continue;
      // The next call starts with this process, and does not search all of /proc again.
      search_.reset();
      const auto process = identity::read_process(proc, pid);
      return fail(ErrorCode::conflict,
                  "the share '" + share + "' is in use by process " + std::to_string(pid) + " (" +
                      (process ? process->command : "") + ")",
                  "end it first: the share's page is damaged, so its other processes are not known");
    }
    // Check processes that started during earlier calls too.
    if (fresh) return {};
    fresh = true;
    const identity::ProcessList list = identity::list_processes(proc);
    if (!list.complete || list.all.empty()) {
      *this = {};
      return fail(ErrorCode::failed,
                  "the page of the share '" + share + "' is damaged, and /proc does not show what uses it",
                  "end its programs, remove " + place + ", restart headgated, and remove the share then");
    }
    const std::set seen(processes_.begin(), processes_.end());
    for (const identity::Process& now : list.all)
      if (const std::pair which(now.pid, now.start_time); !seen.contains(which)) processes_.push_back(which);
  }
}

}  // namespace headgate::tenancy
