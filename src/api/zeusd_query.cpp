#include "api/zeusd_query.hpp"

#include <algorithm>

#include "base/joined.hpp"
#include "base/trimmed.hpp"
#include "base/utf8.hpp"
#include "base/whole_number.hpp"

namespace headgate::api {
namespace {

constexpr std::size_t kMaxShown = 80;  // bytes of a caller's text in a message

std::string in_ticks(std::string_view text) { return "`" + printable(text, kMaxShown) + "`"; }

std::string names_of_parameters(std::span<const ZeusdParameter> accepted) {
  const auto names = joined(accepted, ", ", [](const ZeusdParameter& one) { return in_ticks(one.name); });
  return names.empty() ? "there are no fields" : "expected " + names;
}

Result<std::vector<std::uint32_t>> parse_id_list(std::string_view name, std::string_view text) {
  std::vector<std::uint32_t> ids;
  for (std::string_view rest = text;;) {
    const auto comma = rest.find(',');
    const std::string_view item = trimmed(rest.substr(0, comma));
    const auto id = whole_number<std::uint32_t>(item);
    if (!id)
      return fail(ErrorCode::usage, "invalid " + std::string(name) + " " + in_ticks(text) + ": " +
                                        (item.empty() ? "an index is missing" : in_ticks(item) + " is no index") +
                                        "; expected indices with commas, such as 0,1");
    ids.push_back(*id);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  std::ranges::sort(ids);
  ids.erase(std::ranges::unique(ids).begin(), ids.end());
  return ids;
}

}  // namespace

std::optional<std::vector<std::uint32_t>> ZeusdQuery::list(std::string_view name) const {
  const auto found = ids.find(name);
  return found == ids.end() ? std::nullopt : std::optional(found->second);
}

bool ZeusdQuery::flag(std::string_view name) const {
  const auto found = flags.find(name);
  return found != flags.end() && found->second;
}

std::uint32_t ZeusdQuery::number(std::string_view name) const {
  const auto found = numbers.find(name);
  return found == numbers.end() ? 0 : found->second;
}

Result<ZeusdQuery> parse_zeusd_query(const http::Fields& query, std::span<const ZeusdParameter> accepted) {
  ZeusdQuery parsed;
  std::map<std::string_view, std::string_view> lists;  // parsed last, so that ill-typed parameters are reported first
  for (const http::Field& field : query) {
    const auto parameter = std::ranges::find(accepted, field.name, &ZeusdParameter::name);
    if (parameter == accepted.end())
      return fail(ErrorCode::usage, "unknown field " + in_ticks(field.name) + ", " + names_of_parameters(accepted));
    if (std::ranges::count(query, field.name, &http::Field::name) > 1)
      return fail(ErrorCode::usage, "duplicate field " + in_ticks(field.name) + ": give it once");
    switch (parameter->kind) {
      case ZeusdParameter::Kind::ids: lists[parameter->name] = field.value; break;
      case ZeusdParameter::Kind::flag:
        if (field.value != "true" && field.value != "false")
          return fail(ErrorCode::usage,
                      "invalid value " + in_ticks(field.value) + " of " + field.name + ": expected `true` or `false`");
        parsed.flags[field.name] = field.value == "true";
        break;
      case ZeusdParameter::Kind::number: {
        const auto number = whole_number<std::uint32_t>(field.value);
        if (!number)
          return fail(ErrorCode::usage, "invalid value " + in_ticks(field.value) + " of " + field.name +
                                            ": expected a whole number from 0 to 4294967295");
        parsed.numbers[field.name] = *number;
        break;
      }
    }
  }
  for (const ZeusdParameter& parameter : accepted) {
    if (parameter.required && std::ranges::find(query, parameter.name, &http::Field::name) == query.end())
      return fail(ErrorCode::usage, "missing field " + in_ticks(parameter.name));
  }
  for (const auto& [name, text] : lists) parsed.ids[std::string(name)] = TRY(parse_id_list(name, text));
  return parsed;
}

}  // namespace headgate::api
