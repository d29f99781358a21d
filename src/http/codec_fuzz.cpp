// Any bytes, split anywhere, give a request, a refusal or a need for more; the split makes no difference.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "http/codec.hpp"

namespace {

using headgate::http::Refusal;
using headgate::http::Request;

struct Outcome {
  std::vector<std::string> bodies;
  std::vector<std::string> paths;
  int refused = 0;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

// Returns false if nothing more can come.
bool drain(headgate::http::RequestParser& parser, Outcome& outcome, std::string_view bytes) {
  auto fed = parser.feed(bytes);
  while (fed && parser.done()) {
    const auto request = parser.take();
    if (!request) {
      outcome.refused = request.error().status;
      return false;
    }
    if (!request->path.starts_with('/')) std::abort();
    outcome.bodies.push_back(request->body);
    outcome.paths.push_back(request->path);
    fed = parser.feed({});
  }
  if (!fed) {
    if (fed.error().status < 400 || fed.error().message.empty()) std::abort();
    outcome.refused = fed.error().status;
  }
  return fed.has_value();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::size_t cut = data[0] * 256U + data[1];
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const headgate::http::CodecLimits limits{.head_bytes = 1024, .body_bytes = 1024};
  Outcome whole;
  headgate::http::RequestParser at_once(limits);
  (void)drain(at_once, whole, text);
  Outcome cut_up;
  headgate::http::RequestParser in_two(limits);
  const std::size_t first = std::min(cut, text.size());
  if (drain(in_two, cut_up, text.substr(0, first))) (void)drain(in_two, cut_up, text.substr(first));
  // The split may decide when an error is detected, and which of two, but never what is accepted. Near the head's limit
  // it may decide that too, because the request line only counts while it is incomplete.
  const bool comparable = text.size() <= limits.head_bytes;
  if (comparable && (whole.bodies != cut_up.bodies || whole.paths != cut_up.paths)) std::abort();

  headgate::http::ResponseParser response(false, 1024);
  if (response.feed(text.substr(0, first)) && response.feed(text.substr(first)) && response.end()) {
    if (!response.done() || response.status() < 0) std::abort();
    (void)response.take();
  }
  return 0;
}
