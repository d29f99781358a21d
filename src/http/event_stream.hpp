// Server-sent events from a producer to a connection: through a bounded queue, or pulled from a source. Thread-safe:
// any thread may push, wake and finish; the connection reads on the loop's thread.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace headgate::http {

// A server-sent event (WHATWG HTML, section 9.2). `name` and `id` lose line breaks; `data` may have several lines.
struct Event {
  std::string name;  // empty: the receiver uses "message"
  std::string data;
  std::string id;
  friend bool operator==(const Event&, const Event&) = default;
};

class EventStream {
 public:
  // A client with more than `most_bytes` of queued event text is too slow and is dropped.
  explicit EventStream(std::size_t most_bytes = 1 << 20) : most_bytes_(most_bytes) {}

  // Returns false if the stream is finished, the client is gone, or this event overflowed the queue (drops the client).
  bool push(const Event& event);
  // Instead of push(): calls `source` on the loop's thread whenever all earlier events are written; empty means none
  // until wake(). Events that a slow client has not taken are not stored here. Call it before handing out the response.
  void feed_from(std::function<std::vector<Event>()> source);
  void wake();
  // Ends the response after writing what is queued or what the source still has.
  void finish();
  [[nodiscard]] bool open() const;
  // Sets a callback, run once on the loop's thread when the client is gone or dropped or the stream is fully written;
  // at once if that has happened.
  void on_close(std::function<void()> callback);

  // For the connection.
  struct Batch {
    std::string text;
    bool finished = false;  // nothing follows `text`
    bool overflowed = false;
  };
  [[nodiscard]] Batch take();
  void attach(std::function<void()> wake);  // `wake` is called on any thread when there is something to take
  void close();

 private:
  mutable std::mutex mutex_;
  const std::size_t most_bytes_;
  std::string queued_;
  bool finished_ = false;
  bool overflowed_ = false;
  bool closed_ = false;
  std::function<std::vector<Event>()> source_;
  std::function<void()> wake_;
  std::function<void()> closed_callback_;
};

}  // namespace headgate::http
