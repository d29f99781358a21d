// Server-sent events between one producer side and the connection that writes them out: a bounded queue, or asked for
// one after the other. Thread-safe: any thread may push, wake and finish; the connection reads on the loop's thread.
#pragma once

#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace headgate::http {

// One server-sent event (WHATWG HTML, section 9.2). `name` and `id` lose line breaks; `data` may have several lines.
struct Event {
  std::string name;  // empty: the receiver sees "message"
  std::string data;
  std::string id;
  friend bool operator==(const Event&, const Event&) = default;
};

class EventStream {
 public:
  // A client that lets more than `most_bytes` of event text queue up is too slow and is dropped.
  explicit EventStream(std::size_t most_bytes = 1 << 20) : most_bytes_(most_bytes) {}

  // False: the stream is finished, its client is gone, or this event was one too many (the client is then dropped).
  bool push(const Event& event);
  // Instead of push: `source` is asked for what comes next, on the loop's thread, each time that all before it was
  // written; empty: nothing now, until wake() is called. What a slow client does not take is kept nowhere here. Before
  // the response is handed out.
  void feed_from(std::function<std::vector<Event>()> source);
  void wake();
  // What is queued, or `source` has, is still written, then the response ends.
  void finish();
  [[nodiscard]] bool open() const;
  // Called once, when the client is gone or was dropped or the stream was written to its end; on the loop's thread.
  // At once where that has happened already.
  void on_close(std::function<void()> callback);

  // The connection's side.
  struct Batch {
    std::string text;
    bool finished = false;  // nothing comes after `text`
    bool overflowed = false;
  };
  [[nodiscard]] Batch take();
  void attach(std::function<void()> wake);  // `wake` is called from any thread when there is something to take
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
