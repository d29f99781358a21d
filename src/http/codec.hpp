// HTTP/1.1 without sockets: parses bytes to requests and responses, and formats them. Not thread-safe.
#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <string_view>

#include "http/message.hpp"

namespace headgate::http {

struct CodecLimits {
  std::uint32_t head_bytes = 16 << 10;  // headers; the request line alone has the same limit
  std::uint64_t body_bytes = 1 << 20;
};

// Why a request is rejected: the status to send (400, 413, 431, 501) and a sentence.
struct Refusal {
  int status = 400;
  std::string message;
  friend bool operator==(const Refusal&, const Refusal&) = default;
};

class RequestParser {
 public:
  explicit RequestParser(CodecLimits limits = {});
  ~RequestParser();
  RequestParser(const RequestParser&) = delete;
  RequestParser& operator=(const RequestParser&) = delete;

  // Consumes all of `bytes`, keeping those of a following request. Unusable after a refusal.
  [[nodiscard]] std::expected<void, Refusal> feed(std::string_view bytes);
  [[nodiscard]] bool begun() const;      // at least one byte of the current request has arrived
  [[nodiscard]] bool head_done() const;  // its headers are complete
  [[nodiscard]] bool done() const;
  [[nodiscard]] bool expects_continue() const;  // head_done(), and the client waits for "100 Continue"
  // Returns the request once done(). Then call feed({}) to parse the next one from bytes already received.
  [[nodiscard]] std::expected<Request, Refusal> take();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Decodes a request target into path and query: percent-escapes, and "+" in a query as blank. The absolute form
// "http://HOST/path", which clients of a proxy send, overrides the Host header (RFC 9112, section 3.2.2). Refuses other
// forms, invalid escapes, and control characters, even escaped ones.
struct Target {
  std::string host;  // empty: use the Host header
  std::string path;
  std::vector<std::string> segments;
  Fields query;
};
[[nodiscard]] std::expected<Target, Refusal> parse_target(std::string_view target);

// Percent-escapes everything except letters, digits and "-._~": for one path segment or query value.
[[nodiscard]] std::string escape(std::string_view text);

// Status line and headers. Control characters in header values become blanks.
struct Framing {
  enum class Body { sized, chunked, until_close } body = Body::sized;
  bool keep_alive = true;
};
[[nodiscard]] std::string response_head(const Response& response, Framing framing);
[[nodiscard]] std::string chunk(std::string_view data);  // `data` must not be empty: an empty chunk ends the body
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";
inline constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

// For clients: formats requests and parses responses.
struct OutgoingRequest {
  std::string method = "GET";
  std::string target = "/";  // already escaped
  Fields headers{};
  std::string body{};
  std::string content_type = "application/json";
};
[[nodiscard]] std::string request_text(const OutgoingRequest& request, std::string_view host, bool keep_alive);

struct IncomingResponse {
  int status = 0;
  Fields headers;
  std::string body;
};

class ResponseParser {
 public:
  // `head_request`: a response to HEAD has no body, whatever its headers say. `most_body_bytes` 0: no limit.
  explicit ResponseParser(bool head_request = false, std::uint64_t most_body_bytes = 64 << 20);
  ~ResponseParser();
  ResponseParser(const ResponseParser&) = delete;
  ResponseParser& operator=(const ResponseParser&) = delete;

  [[nodiscard]] std::expected<void, std::string> feed(std::string_view bytes);
  // Marks the end of the connection. Fails if the response is incomplete.
  [[nodiscard]] std::expected<void, std::string> end();
  [[nodiscard]] bool head_done() const;
  [[nodiscard]] bool done() const;
  [[nodiscard]] int status() const;
  [[nodiscard]] IncomingResponse take();       // once done()
  [[nodiscard]] std::string take_body_part();  // body bytes since the last call, for streams

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace headgate::http
