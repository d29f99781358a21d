// HTTP/1.1 without sockets: bytes in, requests and responses out, and back to bytes. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <string_view>

#include "http/message.hpp"

namespace headgate::http {

struct CodecLimits {
  std::uint32_t head_bytes = 16 << 10;  // headers; the request line by itself is held to it too
  std::uint64_t body_bytes = 1 << 20;
};

// Why bytes are no request that we take: the status to answer with (400, 413, 431, 501) and a sentence for it.
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

  // Takes all of `bytes`; what belongs to a next request is kept for it. After a refusal the parser is of no more use.
  [[nodiscard]] std::expected<void, Refusal> feed(std::string_view bytes);
  [[nodiscard]] bool begun() const;      // some byte of the current request has come
  [[nodiscard]] bool head_done() const;  // its headers are complete
  [[nodiscard]] bool done() const;
  [[nodiscard]] bool expects_continue() const;  // head_done(), and the client waits for "100 Continue" before its body
  // The request, once done(). The parser then stands before the next one: feed({}) looks at what is already here.
  [[nodiscard]] std::expected<Request, Refusal> take();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Path and query of a request target: percent-escapes decoded, "+" in a query as blank. "http://HOST/path", which a
// client of a proxy sends, is a path with the host that is meant, in place of the Host header (RFC 9112, section
// 3.2.2). Refused: a target that begins otherwise, an escape that is none, and control characters, however they are
//   written.
struct Target {
  std::string host;  // empty: the header says it
  std::string path;
  std::vector<std::string> segments;
  Fields query;
};
[[nodiscard]] std::expected<Target, Refusal> parse_target(std::string_view target);

// `text` with everything but letters, digits and "-._~" percent-escaped: for one path segment or query value.
[[nodiscard]] std::string escape(std::string_view text);

// Response line and headers. Control characters in header values become blanks.
struct Framing {
  enum class Body { sized, chunked, until_close } body = Body::sized;
  bool keep_alive = true;
};
[[nodiscard]] std::string response_head(const Response& response, Framing framing);
[[nodiscard]] std::string chunk(std::string_view data);  // `data` is not empty: an empty chunk would end the body
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";
inline constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

// The client's side: a request as bytes, a response from bytes.
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
  // `head_request`: the response to a HEAD has no body whatever its headers say. `most_body_bytes` 0: no limit.
  explicit ResponseParser(bool head_request = false, std::uint64_t most_body_bytes = 64 << 20);
  ~ResponseParser();
  ResponseParser(const ResponseParser&) = delete;
  ResponseParser& operator=(const ResponseParser&) = delete;

  [[nodiscard]] std::expected<void, std::string> feed(std::string_view bytes);
  // The connection has ended. An error where the response needed more.
  [[nodiscard]] std::expected<void, std::string> end();
  [[nodiscard]] bool head_done() const;
  [[nodiscard]] bool done() const;
  [[nodiscard]] int status() const;
  [[nodiscard]] IncomingResponse take();       // once done()
  [[nodiscard]] std::string take_body_part();  // what has come of the body since the last call: for streams

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace headgate::http
