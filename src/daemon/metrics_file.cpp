#include "daemon/metrics_file.hpp"

#include "api/metrics.hpp"
#include "daemon/journal.hpp"
#include "node/share_request.hpp"

namespace headgate::daemon {
namespace {

constexpr std::size_t kSome = 1000;

}  // namespace

Result<std::optional<MetricsFile::Wish>> MetricsFile::wish_of(const config::Config& config) {
  Wish wish{.path = config["metrics.file"].value};
  if (wish.path.empty()) return std::nullopt;
  if (!wish.path.starts_with('/'))
    return fail(ErrorCode::usage,
                config["metrics.file"].origin + ": metrics.file = '" + wish.path + "' is a relative path",
                "accepted: a path that begins with /");
  wish.form = api::line_form(config["metrics.format"].value).value_or(api::LineForm::influx);  // config has checked it
  const auto interval = node::parse_duration("metrics.interval", config["metrics.interval"].value);
  if (!interval)
    return fail(ErrorCode::usage, config["metrics.interval"].origin + ": " + interval.error().message,
                interval.error().hint);
  wish.interval = *interval;
  return wish;
}

MetricsFile::MetricsFile(Wish wish, const node::Node& node, const observe::Observer& observer,
                         const observe::EventLog& events, const api::Tally& tally)
    : wish_(std::move(wish)),
      node_(node),
      observer_(observer),
      events_(events),
      tally_(tally),
      file_(wish_.path),
      reached_{.events = observe::EventCursor(events, events.began_after())},
      thread_([this] { write_until_stopped(); }) {}

MetricsFile::~MetricsFile() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

std::string MetricsFile::lines(Reached& reached) const {
  const observe::NodeSnapshot snapshot = observer_.latest();
  std::string out;
  if (snapshot->taken_ns != reached.snapshot_ns) {
    reached.snapshot_ns = snapshot->taken_ns;
    out = api::metric_lines(api::families_of(*snapshot, api::daemon_figures(node_, observer_, tally_)),
                            snapshot->node.name, snapshot->taken_unix_ns, wish_.form);
  }
  for (auto some = reached.events.next(events_, kSome); !some.empty(); some = reached.events.next(events_, kSome)) {
    for (const auto& event : some) out += api::event_line(event, snapshot->node.name, wish_.form);
  }
  return out;
}

void MetricsFile::write_until_stopped() {
  std::unique_lock lock(mutex_);
  for (bool last = false; !last; wake_.wait_for(lock, wish_.interval, [this] { return stopping_; })) {
    last = stopping_;  // write once more at the end, for what has happened since
    lock.unlock();
    // What could not be written is included the next time.
    Reached reached = reached_;
    const auto added = file_.add(lines(reached));
    if (added) reached_ = reached;
    else if (!failing_) journal(JournalLevel::warning, "metrics.file: " + added.error().message);
    failing_ = !added;
    lock.lock();
  }
}

}  // namespace headgate::daemon
