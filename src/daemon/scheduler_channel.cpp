#include "daemon/scheduler_channel.hpp"

#include "node/share_request.hpp"

namespace headgate::daemon {

Result<void> SchedulerChannel::open(Context& context) {
  bounds_.answer = TRY(node::parse_duration("node.admit_timeout", context.config["node.admit_timeout"].value));
  channel_.emplace(context.loop, channel::ChannelOptions{.limits = api::Scheduler::limits(bounds_),
                                                         .authorise = api::administrators(context.access)});
  scheduler_.emplace(*channel_, context.events, bounds_.answer);
  return {};
}

}  // namespace headgate::daemon
