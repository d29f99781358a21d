#include "http/message.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace headgate::http {
namespace {

struct CodeStatus {
  ErrorCode code;
  int status;
};
constexpr CodeStatus kCodes[] = {
    {ErrorCode::usage, 400},       {ErrorCode::denied, 403},      {ErrorCode::not_found, 404},
    {ErrorCode::no_capacity, 409}, {ErrorCode::conflict, 409},    {ErrorCode::failed, 500},
    {ErrorCode::unsupported, 501}, {ErrorCode::unreachable, 503}, {ErrorCode::busy, 503},
};

const std::string* find_exact(const Fields& fields, std::string_view name) {
  const auto found = std::ranges::find(fields, name, &Field::name);
  return found == fields.end() ? nullptr : &found->value;
}

std::string text_of(const nlohmann::json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

bool is_port(std::string_view text) {
  return !text.empty() && text.size() <= 5 && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

bool same_name(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::ranges::equal(a, b, {}, lower, lower);
}

const std::string* find(const Fields& fields, std::string_view name) {
  const auto found = std::ranges::find_if(fields, [&](const Field& field) { return same_name(field.name, name); });
  return found == fields.end() ? nullptr : &found->value;
}

bool Peer::in_group(gid_t group) const { return gid == group || std::ranges::find(groups, group) != groups.end(); }

const std::string* Request::parameter(std::string_view name) const { return find_exact(parameters, name); }

const std::string* Request::query_value(std::string_view name) const { return find_exact(query, name); }

Response json_reply(std::string json, int status) {
  Response response;
  response.status = status;
  response.body = std::move(json) + "\n";
  return response;
}

Response error_response(int status, std::string_view code, std::string_view message, std::string_view hint) {
  const nlohmann::ordered_json body = {{"code", code}, {"message", message}, {"hint", hint}};
  return json_reply(body.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace), status);
}

Response error_response(const Error& error) {
  const auto* row = std::ranges::find(kCodes, error.code, &CodeStatus::code);
  return error_response(row->status, error_word(error.code), error.message, error.hint);
}

Error error_of(int status, std::string_view body) {
  const auto parsed = nlohmann::json::parse(body, nullptr, false);
  Error error;
  if (parsed.is_object()) {
    error.message = text_of(parsed, "message");
    error.hint = text_of(parsed, "hint");
  }
  const std::string word = parsed.is_object() ? text_of(parsed, "code") : std::string();
  const auto* row = std::ranges::find_if(kCodes, [&](const auto& known) { return error_word(known.code) == word; });
  if (row != std::end(kCodes)) {
    error.code = row->code;
  } else if (status == 503) {
    error.code = ErrorCode::unreachable;
  } else if (status == 401 || status == 403) {
    error.code = ErrorCode::denied;
  } else if (status == 404) {
    error.code = ErrorCode::not_found;
  } else if (status >= 400 && status < 500) {
    error.code = ErrorCode::usage;
  }
  if (error.message.empty()) error.message = "the server answered " + std::to_string(status);
  return error;
}

bool is_own_name(std::string_view host, std::span<const std::string> names) {
  in6_addr address{};
  if (host.starts_with('[')) {
    const auto end = host.find(']');
    if (end == std::string_view::npos) return false;
    const std::string_view rest = host.substr(end + 1);
    if (!rest.empty() && (rest[0] != ':' || !is_port(rest.substr(1)))) return false;
    return ::inet_pton(AF_INET6, std::string(host.substr(1, end - 1)).c_str(), &address) == 1;
  }
  if (const auto colon = host.find(':'); colon != std::string_view::npos) {
    if (!is_port(host.substr(colon + 1))) return false;
    host = host.substr(0, colon);
  }
  if (::inet_pton(AF_INET, std::string(host).c_str(), &address) == 1) return true;
  if (host.ends_with('.')) host.remove_suffix(1);
  return same_name(host, "localhost") ||
         std::ranges::any_of(names, [&](const std::string& name) { return !name.empty() && same_name(host, name); });
}

}  // namespace headgate::http
