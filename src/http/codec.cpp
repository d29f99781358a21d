// Wraps Beast's parsers. Data is fed by hand; Beast's I/O is never instantiated, and no other file uses Beast.
#include "http/codec.hpp"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/rfc7230.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/beast/http/string_body.hpp>
#include <optional>

namespace headgate::http {
namespace {

namespace beast = boost::beast;
using beast::http::field;

// boost::beast::string_view became boost::core::string_view in 1.81; both have data() and size().
template <typename Text>
std::string text(const Text& view) {
  return {view.data(), view.size()};
}

template <typename Message>
Fields fields_of(const Message& message) {
  Fields fields;
  for (const auto& entry : message) fields.push_back({text(entry.name_string()), text(entry.value())});
  return fields;
}

// Feeds `buffer` and erases the consumed bytes. need_more is not an error: the head is incomplete.
template <typename Parser>
beast::error_code put(Parser& parser, std::string& buffer) {
  beast::error_code error;
  std::size_t used = 0;
  while (used < buffer.size() && !parser.is_done()) {
    const std::size_t taken = parser.put(boost::asio::const_buffer(buffer.data() + used, buffer.size() - used), error);
    used += taken;
    if (error || taken == 0) break;
  }
  buffer.erase(0, used);
  if (error == beast::http::error::need_more) error = {};
  return error;
}

Refusal refusal_of(const beast::error_code& error, const CodecLimits& limits) {
  if (error == beast::http::error::header_limit) {
    return {431, "the request's head is larger than " + std::to_string(limits.head_bytes) + " bytes"};
  }
  if (error == beast::http::error::body_limit) {
    return {413, "the request's body is larger than " + std::to_string(limits.body_bytes) + " bytes"};
  }
  return {400, "this is no HTTP/1.1 request: " + error.message()};
}

std::string clean(std::string_view value) {
  std::string cleaned(value);
  const auto is_control = [](char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f; };
  std::ranges::replace_if(cleaned, is_control, ' ');
  return cleaned;
}

std::string field_line(std::string_view name, std::string_view value) {
  return clean(name) + ": " + clean(value) + "\r\n";
}

bool has_no_body(int status) { return status < 200 || status == 204 || status == 304; }

}  // namespace

struct RequestParser::Impl {
  using Parser = beast::http::request_parser<beast::http::string_body>;

  explicit Impl(CodecLimits all) : limits(all) { reset(); }
  void reset() {
    parser.emplace();
    parser->eager(true);
    parser->header_limit(limits.head_bytes);
    parser->body_limit(limits.body_bytes);
  }

  const CodecLimits limits;
  std::optional<Parser> parser;
  std::string buffer;
};

RequestParser::RequestParser(CodecLimits limits) : impl_(std::make_unique<Impl>(limits)) {}
RequestParser::~RequestParser() = default;

std::expected<void, Refusal> RequestParser::feed(std::string_view bytes) {
  impl_->buffer += bytes;
  if (const auto error = put(*impl_->parser, impl_->buffer)) {
    return std::unexpected(refusal_of(error, impl_->limits));
  }
  // The parser limits head and body, but neither the line before a chunk nor the trailer.
  if (!impl_->parser->is_done() && impl_->buffer.size() > impl_->limits.head_bytes)
    return std::unexpected(Refusal{431, "what stands before a chunk or behind the last one is longer than " +
                                            std::to_string(impl_->limits.head_bytes) + " bytes"});
  if (head_done()) {
    // Beast only knows "chunked"; it would take a body with any other coding for the next request.
    const auto& head = impl_->parser->get();
    const auto coding = head.find(field::transfer_encoding);
    if (coding != head.end() && !beast::iequals(coding->value(), "chunked")) {
      return std::unexpected(Refusal{501, "the only transfer coding taken is 'chunked'"});
    }
    // RFC 9112, section 3.2: with no Host or two, a proxy in front of us may have meant another host than we do.
    const auto hosts = head.count(field::host);
    if (hosts > 1 || (hosts == 0 && head.version() >= 11)) {
      return std::unexpected(Refusal{400, hosts == 0 ? "an HTTP/1.1 request needs the header Host"
                                                     : "the header Host stands more than once in this request"});
    }
  }
  return {};
}

bool RequestParser::begun() const { return impl_->parser->got_some() || !impl_->buffer.empty(); }
bool RequestParser::head_done() const { return impl_->parser->is_header_done(); }
bool RequestParser::done() const { return impl_->parser->is_done(); }

bool RequestParser::expects_continue() const {
  return head_done() && beast::iequals(impl_->parser->get()[field::expect], "100-continue");
}

std::expected<Request, Refusal> RequestParser::take() {
  auto message = impl_->parser->release();
  impl_->reset();
  auto target = TRY(parse_target(text(message.target())));
  Request request;
  request.method = text(message.method_string());
  request.path = std::move(target.path);
  request.segments = std::move(target.segments);
  request.query = std::move(target.query);
  if (!target.host.empty()) message.set(field::host, target.host);
  request.headers = fields_of(message);
  request.http_1_0 = message.version() < 11;
  request.keep_alive = message.keep_alive();
  request.body = std::move(message.body());
  return request;
}

std::string response_head(const Response& response, Framing framing) {
  const auto status = static_cast<unsigned>(response.status);
  std::string head = "HTTP/1.1 " + std::to_string(status) + " ";
  head += text(beast::http::obsolete_reason(beast::http::int_to_status(status))) + "\r\n";
  if (!has_no_body(response.status)) {
    head += field_line("Content-Type", response.content_type);
    if (framing.body == Framing::Body::sized) {
      head += field_line("Content-Length", std::to_string(response.body.size()));
    } else if (framing.body == Framing::Body::chunked) {
      head += field_line("Transfer-Encoding", "chunked");
    }
  }
  for (const auto& [name, value] : response.headers) head += field_line(name, value);
  head += field_line("Connection", framing.keep_alive ? "keep-alive" : "close");
  return head += "\r\n";
}

std::string chunk(std::string_view data) {
  char size[20];
  const int length = std::snprintf(size, sizeof size, "%zx\r\n", data.size());
  std::string framed(size, static_cast<std::size_t>(length));
  framed += data;
  return framed += "\r\n";
}

std::string request_text(const OutgoingRequest& request, std::string_view host, bool keep_alive) {
  std::string head = clean(request.method) + " " + clean(request.target) + " HTTP/1.1\r\n" + field_line("Host", host);
  for (const auto& [name, value] : request.headers) head += field_line(name, value);
  if (!request.body.empty()) head += field_line("Content-Type", request.content_type);
  if (!request.body.empty() || request.method != "GET") {
    head += field_line("Content-Length", std::to_string(request.body.size()));
  }
  if (!keep_alive) head += field_line("Connection", "close");
  return head += "\r\n" + request.body;
}

struct ResponseParser::Impl {
  beast::http::response_parser<beast::http::string_body> parser;
  std::string buffer;
};

ResponseParser::ResponseParser(bool head_request, std::uint64_t most_body_bytes) : impl_(std::make_unique<Impl>()) {
  impl_->parser.eager(true);
  impl_->parser.skip(head_request);
  impl_->parser.header_limit(64 << 10);
  if (most_body_bytes == 0) {
    impl_->parser.body_limit(boost::none);
  } else {
    impl_->parser.body_limit(most_body_bytes);
  }
}
ResponseParser::~ResponseParser() = default;

std::expected<void, std::string> ResponseParser::feed(std::string_view bytes) {
  impl_->buffer += bytes;
  if (const auto error = put(impl_->parser, impl_->buffer)) return std::unexpected(error.message());
  return {};
}

std::expected<void, std::string> ResponseParser::end() {
  if (done()) return {};
  if (!impl_->parser.got_some()) return std::unexpected("the connection ended before an answer");
  beast::error_code error;
  impl_->parser.put_eof(error);
  if (error) return std::unexpected(error.message());
  return {};
}

bool ResponseParser::head_done() const { return impl_->parser.is_header_done(); }
bool ResponseParser::done() const { return impl_->parser.is_done(); }
int ResponseParser::status() const { return static_cast<int>(impl_->parser.get().result_int()); }

IncomingResponse ResponseParser::take() {
  IncomingResponse response;
  response.status = status();
  response.headers = fields_of(impl_->parser.get());
  response.body = std::move(impl_->parser.get().body());
  return response;
}

std::string ResponseParser::take_body_part() { return std::exchange(impl_->parser.get().body(), {}); }

}  // namespace headgate::http
