#include "api/event_followers.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "api/event_history.hpp"

namespace headgate::api {

http::Response EventFollowers::add(const http::Request& request, const node::Caller& caller, observe::EventLog& events,
                                   tenancy::EventStore* history, std::size_t most_per_user) {
  forget_gone();
  const auto has = std::ranges::count(followers_, caller.uid, &Follower::uid);
  if (static_cast<std::size_t>(has) >= most_per_user) {
    return http::error_response(429, "busy", "you follow " + std::to_string(has) + " streams of events already",
                                "close one, or raise node.streams_per_user in the configuration");
  }
  auto following = following_of(request);
  if (!following) return http::error_response(following.error());
  http::Response response;
  response.stream = std::make_shared<http::EventStream>();
  const auto feed = std::make_shared<EventFeed>(events, history, caller, std::move(following->query),
                                                following->from_now, [weak = std::weak_ptr(response.stream)] {
                                                  if (const auto stream = weak.lock()) stream->wake();
                                                });
  response.stream->feed_from([feed] { return feed->next(); });
  followers_.push_back({response.stream, caller.uid});
  return response;
}

void EventFollowers::wake() {
  forget_gone();
  for (const auto& follower : followers_) follower.stream->wake();
}

void EventFollowers::finish() {
  for (const auto& follower : followers_) follower.stream->finish();
  followers_.clear();
}

void EventFollowers::forget_gone() {
  std::erase_if(followers_, [](const Follower& follower) { return !follower.stream->open(); });
}

}  // namespace headgate::api
