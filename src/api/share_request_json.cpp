#include "api/share_request_json.hpp"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "api/body.hpp"
#include "base/whole_number.hpp"
#include "guest/grant/size.hpp"

namespace headgate::api {
namespace {

using Json = nlohmann::ordered_json;

using node::kMaxId;

// Formats a value for a message. Nested lists are not written out: the JSON writer recurses per level, so a million
// brackets would overflow the stack.
std::string shown(const Json& value) {
  const bool deep =
      value.is_structured() && std::ranges::any_of(value, [](const Json& v) { return v.is_structured(); });
  // Text from a URL may be invalid UTF-8, unlike text from a body.
  return deep ? std::string("a nested ") + value.type_name()
              : tenancy::escape_untrusted(value.dump(-1, ' ', false, Json::error_handler_t::replace));
}

std::unexpected<Error> unfit(const std::string& key, const Json& value, const std::string& accepted) {
  return fail(ErrorCode::usage, tenancy::escape_untrusted(key) + " = " + shown(value) + " is not understood",
              "accepted: " + accepted);
}

// A number that fits its field: cut to 32 bits, it would be another user's, or another bound.
Result<std::uint32_t> number_from(const std::string& key, const Json& value, std::uint32_t most) {
  if (value.is_number_unsigned() && value.get<std::uint64_t>() <= most) return value.get<std::uint32_t>();
  if (value.is_number())
    return fail(ErrorCode::usage, tenancy::escape_untrusted(key) + " = " + shown(value) + " is out of range",
                "accepted: a whole number of 0 to " + std::to_string(most));
  return unfit(key, value, "a whole number of 0 to " + std::to_string(most));
}

// Three times the parts of a share request with all its users and groups. An object finds a key by linear search, so
// without this limit a body full of keys would block the daemon's loop for half a minute.
constexpr std::size_t kMaxParts = 2048;

// Counts keys, values and ends of containers, and stops parsing at the limit. A callback of Json::parse cannot stop it.
class PartCounter {
 public:
  [[nodiscard]] bool too_many() const { return parts_ > kMaxParts; }

  bool null() { return one(); }
  bool boolean(bool) { return one(); }
  bool number_integer(Json::number_integer_t) { return one(); }
  bool number_unsigned(Json::number_unsigned_t) { return one(); }
  bool number_float(Json::number_float_t, const std::string&) { return one(); }
  bool string(std::string&) { return one(); }
  bool binary(Json::binary_t&) { return one(); }
  bool start_object(std::size_t) { return one(); }
  bool key(std::string&) { return one(); }
  bool end_object() { return one(); }
  bool start_array(std::size_t) { return one(); }
  bool end_array() { return one(); }
  // Ignored here: the real parse reports malformed JSON.
  static bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) { return false; }

 private:
  bool one() { return ++parts_ <= kMaxParts; }

  std::size_t parts_ = 0;
};

Result<Json> object_from(const std::string& body) {
  PartCounter counter;
  static_cast<void>(Json::sax_parse(body, &counter));
  if (counter.too_many())
    return fail(ErrorCode::usage, "the body has more than " + std::to_string(kMaxParts) + " keys and values",
                "a share has at most 256 users and 256 groups by name; a group may have any number of members");
  // Parsers disagree on duplicate keys (some keep the first value, others the last), so they are refused.
  std::set<std::string> seen;
  std::optional<std::string> twice;
  Json json = Json::parse(
      body,
      [&](int depth, Json::parse_event_t event, const Json& parsed) {
        if (event == Json::parse_event_t::key && depth == 1 && !seen.insert(parsed.get<std::string>()).second)
          twice = parsed.get<std::string>();
        return true;
      },
      false);
  if (twice)
    return fail(ErrorCode::usage, "the key '" + tenancy::escape_untrusted(*twice) + "' is given twice",
                "give each once");
  if (json.is_discarded() || !json.is_object())
    return fail(ErrorCode::usage, "the body is no JSON object: " + tenancy::escape_untrusted(body),
                "such as {\"name\": \"alice\", \"mem\": \"8GiB\", \"compute\": \"50%\"}");
  return json;
}

Result<bool> flag_from(const std::string& key, const Json& value) {
  if (!value.is_boolean()) return unfit(key, value, "true or false");
  return value.get<bool>();
}

using snapshot::ShareAttribute;

Result<void> read(const ShareAttribute& attribute, const std::string& key, const Json& value,
                  std::optional<std::string>& field) {
  const std::string accepted(attribute.accepted);
  if (value.is_string()) field = value.get<std::string>();
  else if (attribute.takes_number && value.is_number_unsigned()) field = value.dump();
  else return unfit(key, value, attribute.takes_number ? accepted + ", as a number or a text" : "a text: " + accepted);
  return {};
}

Result<void> read(const ShareAttribute&, const std::string& key, const Json& value,
                  std::optional<std::vector<std::string>>& field) {
  const bool texts = value.is_array() && std::ranges::all_of(value, [](const Json& one) { return one.is_string(); });
  if (!texts) return unfit(key, value, "a list of texts");
  field = value.get<std::vector<std::string>>();
  return {};
}

// A flag of the share, or one of the request itself.
template <typename Flag>
Result<void> read(const ShareAttribute&, const std::string& key, const Json& value, Flag& field) {
  field = TRY(flag_from(key, value));
  return {};
}

Result<void> take(const std::string& key, const Json& value, node::ShareRequest& order) {
  const std::string named = key == "over_sell" ? "overcommit" : key;  // over_sell: its name in the last release
  std::optional<Result<void>> taken;
  snapshot::each_attribute(order, [&](const ShareAttribute& attribute, auto& field) {
    if (attribute.key == named) taken = read(attribute, key, value, field);
  });
  if (taken) return *taken;
  return fail(ErrorCode::usage, "unknown key '" + tenancy::escape_untrusted(key) + "'",
              "accepted: " + field_names(BodyKind::share_request));
}

Result<node::ShareRequest> order_in(const Json& json) {
  node::ShareRequest order;
  for (const auto& [key, value] : json.items()) {
    if (!value.is_null()) TRY(take(key, value, order));
  }
  return order;
}

}  // namespace

Result<node::ShareRequest> share_request_from(const std::string& body) { return order_in(TRY(object_from(body))); }

Result<std::vector<node::NamedRequest>> share_requests_from(const std::string& body) {
  std::vector<node::NamedRequest> all;
  const Json json = TRY(object_from(body));
  for (const auto& [name, change] : json.items()) {
    if (!change.is_object()) return unfit(name, change, "an object with what is to change of that share");
    if (change.empty())
      return fail(ErrorCode::usage,
                  "nothing to change of the share '" + tenancy::escape_untrusted(name) + "' was named",
                  "accepted: " + field_names(BodyKind::share_change));
    all.emplace_back(name, TRY(order_in(change)));
  }
  if (all.empty())
    return fail(ErrorCode::usage, "no share was named",
                R"(such as {"alice": {"compute": "80%"}, "bob": {"compute": "20%"}})");
  return all;
}

std::string place_json(std::size_t place, const std::string& reason) {
  return Json{{"place", place}, {"reason", reason}}.dump(-1, ' ', true, Json::error_handler_t::replace);
}

Result<PolicyChange> policy_change_from(const std::string& body) {
  const Json json = TRY(object_from(body));
  PolicyChange change;
  for (const auto& [key, value] : json.items()) {
    if (key == "void_promises") {
      change.void_promises = TRY(flag_from(key, value));
      continue;
    }
    if (key != "policy")
      return fail(ErrorCode::usage, "unknown key '" + tenancy::escape_untrusted(key) + "'",
                  "accepted: " + field_names(BodyKind::gpu_change));
    if (!value.is_string()) return unfit(key, value, "fair, priority, off or default");
    change.policy = value.get<std::string>();
  }
  return change;
}

namespace {

// Resolves the quota's subject: a name known to this machine, or a number (may be text).
Result<std::uint32_t> id_named(const std::string& key, const std::string& text) {
  const node::UserDirectory directory = node::system_directory();
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  const std::optional<std::uint32_t> id = is_number       ? std::optional(number)
                                          : key == "user" ? TRY(directory.user(text))
                                                          : TRY(directory.group(text));
  if (error == std::errc::result_out_of_range || (is_number && number > kMaxId))
    return fail(ErrorCode::usage, key + " = '" + tenancy::escape_untrusted(text) + "' is out of range",
                "accepted: a name of this machine, or a whole number of 0 to " + std::to_string(kMaxId));
  if (!id) return unfit(key, text, "a name of this machine, or a number");
  return *id;
}

// A whole number, be it in text, as the command sends it.
Result<std::uint32_t> whole_number_from(const std::string& key, const Json& value, std::uint32_t least,
                                        std::uint32_t most) {
  const auto number = value.is_string() ? whole_number<std::uint32_t>(value.get<std::string>())
                                        : std::optional<std::uint32_t>(TRY(number_from(key, value, most)));
  if (number && *number >= least && *number <= most) return *number;
  return unfit(key, value, "a whole number of " + std::to_string(least) + " to " + std::to_string(most) + ", or none");
}

Result<std::uint64_t> memory_from(const Json& value, const std::string& text) {
  const auto memory = grant::parse_memory(text);
  if (!memory || memory.value.bytes == 0) return unfit("mem", value, "24GiB, 24Gi, 24G or 24GB, or none");
  return memory.value.bytes;
}

// Over all GPUs, so more than one GPU's 100 % is possible: "250%".
Result<std::uint64_t> compute_from(const Json& value, const std::string& text) {
  const auto percent = text.ends_with('%')
                           ? whole_number<std::uint32_t>(std::string_view(text).substr(0, text.size() - 1))
                           : std::nullopt;
  if (!percent || *percent == 0 || *percent > 1'000'000)
    return unfit("compute", value, "a whole percentage of one GPU, 100% for each GPU: 50%, 200%; or none");
  return std::uint64_t{*percent} * 10'000;
}

Result<tenancy::Class> class_from(const Json& value, const std::string& text) {
  for (const auto one : {tenancy::Class::best_effort, tenancy::Class::normal, tenancy::Class::latency})
    if (text == tenancy::class_word(one)) return one;
  return unfit("class", value, "best-effort, normal, latency or none");
}

// Returns false if the key is not a limit.
Result<bool> take_limit(const std::string& key, const Json& value, tenancy::QuotaChange& change) {
  const std::string text = value.is_string() ? value.get<std::string>() : "";
  const auto take = [&](auto& limit, auto parse) -> Result<bool> {
    limit.emplace();
    if (text != "none") limit = TRY(parse());
    return true;
  };
  if (key == "mem") return take(change.memory_bytes, [&] { return memory_from(value, text); });
  if (key == "compute") return take(change.compute_ppm, [&] { return compute_from(value, text); });
  if (key == "shares") return take(change.shares, [&] { return whole_number_from(key, value, 0, ~0u); });
  if (key == "weight")
    return take(change.weight, [&] { return whole_number_from(key, value, 1, tenancy::kMaxWeight); });
  if (key == "class") return take(change.highest_class, [&] { return class_from(value, text); });
  if (key != "ttl") return false;
  if (!value.is_string()) return unfit(key, value, "a time as text: 30s, 5m, 2h, 7d; or none");
  return take(change.ttl, [&] { return node::parse_duration("ttl", text); });
}

}  // namespace

Result<tenancy::QuotaChange> quota_change_from(const std::string& body) {
  const Json json = TRY(object_from(body));
  tenancy::QuotaChange change;
  int named = 0;
  for (const auto& [key, value] : json.items()) {
    if (value.is_null()) continue;
    if (key == "user" || key == "group") {
      if (!value.is_number() && !value.is_string()) return unfit(key, value, "a name of this machine, or a number");
      change.id =
          value.is_number() ? TRY(number_from(key, value, kMaxId)) : TRY(id_named(key, value.get<std::string>()));
      change.subject = key == "user" ? tenancy::Quota::Subject::user : tenancy::Quota::Subject::group;
      ++named;
    } else if (key == "everyone") {
      if (value != true) return unfit(key, value, "true, or leave it out");
      change.subject = tenancy::Quota::Subject::every_user;
      ++named;
    } else if (!TRY(take_limit(key, value, change))) {
      return fail(ErrorCode::usage, "unknown key '" + tenancy::escape_untrusted(key) + "'",
                  "accepted: " + field_names(BodyKind::quota));
    }
  }
  if (named == 0)
    return fail(ErrorCode::usage, "the quota names no user or group", "name a user, a group, or everyone");
  if (named > 1)
    return fail(ErrorCode::usage, "the quota is for more than one", "name a user, a group, or everyone: one of them");
  if (tenancy::says_nothing(change))
    return fail(ErrorCode::usage, "the quota names no limit",
                "name mem, compute, shares, ttl, weight or class; none takes one back");
  return change;
}

Result<tenancy::Quota> quota_named(const std::string* user, const std::string* group, bool everyone) {
  if ((user != nullptr) + (group != nullptr) + everyone != 1)
    return fail(ErrorCode::usage, "a quota is of exactly one user or group, or of everyone", "name one of them");
  tenancy::Quota quota;
  if (everyone) {
    quota.subject = tenancy::Quota::Subject::every_user;
    return quota;
  }
  quota.id = TRY(id_named(user != nullptr ? "user" : "group", user != nullptr ? *user : *group));
  quota.subject = user != nullptr ? tenancy::Quota::Subject::user : tenancy::Quota::Subject::group;
  return quota;
}

std::string to_json(const tenancy::Quota& quota) {
  Json json = Json::object();
  switch (quota.subject) {
    case tenancy::Quota::Subject::user: json["user"] = quota.id; break;
    case tenancy::Quota::Subject::group: json["group"] = quota.id; break;
    case tenancy::Quota::Subject::every_user: json["everyone"] = true; break;
  }
  json["memory_bytes"] = quota.memory_bytes ? Json(*quota.memory_bytes) : Json();
  json["compute_ratio"] = quota.compute_ppm ? Json(static_cast<double>(*quota.compute_ppm) / 1e6) : Json();
  json["shares"] = quota.shares ? Json(*quota.shares) : Json();
  json["ttl_ns"] = quota.ttl ? Json(quota.ttl->count() * 1'000'000'000) : Json();
  json["weight"] = quota.weight ? Json(*quota.weight) : Json();
  json["class"] = quota.highest_class ? Json(tenancy::class_word(*quota.highest_class)) : Json();
  return json.dump();
}

std::string to_json(const node::Entry& entry) {
  Json variables = Json::object();
  for (const auto& [name, value] : entry.variables) variables[name] = value;
  return Json{{"share", entry.share},
              {"runtime_dir", entry.runtime_dir},
              {"directory", entry.directory},
              {"uuids", entry.uuids},
              {"simulated_dir", entry.simulated_dir},
              {"thread_percentage", entry.thread_percentage},
              {"variables", std::move(variables)},
              {"waits_for", entry.waits_for}}
      .dump(-1, ' ', true, Json::error_handler_t::replace);
}

}  // namespace headgate::api
