#include "mps/book.hpp"

#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "base/whole_file.hpp"

namespace headgate::mps {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const ProcessMark& mark) { return {{"pid", mark.pid}, {"start_time", mark.start_time}}; }

template <typename Number>
Number number_in(const Json& object, const char* key) {
  const auto& value = object.at(key);
  if (!value.is_number_unsigned() || !std::in_range<Number>(value.template get<std::uint64_t>()))
    throw std::out_of_range(std::string(key) + " is out of range");
  return value.template get<Number>();
}

ProcessMark mark_from(const Json& object) {
  return {number_in<std::uint32_t>(object, "pid"), number_in<std::uint32_t>(object, "start_time")};
}

GroupNote group_from(const Json& object) {
  GroupNote group;
  group.key = {object.at("uuid").get<std::string>(), number_in<std::uint32_t>(object, "uid")};
  group.daemon = mark_from(object.at("daemon"));
  group.settings.percent = number_in<std::uint32_t>(object, "percent");
  if (object.contains("pinned_bytes")) group.settings.pinned_bytes = number_in<std::uint64_t>(object, "pinned_bytes");
  for (const Json& holder : object.at("holders"))
    group.holders.push_back(
        {mark_from(holder), holder.at("share").get<std::string>(), holder.at("program").get<bool>()});
  return group;
}

}  // namespace

std::string book_json(const std::vector<GroupNote>& groups) {
  Json list = Json::array();
  for (const GroupNote& group : groups) {
    Json one = {{"uuid", group.key.uuid},
                {"uid", group.key.uid},
                {"daemon", json_of(group.daemon)},
                {"percent", group.settings.percent},
                {"holders", Json::array()}};
    if (group.settings.pinned_bytes) one["pinned_bytes"] = *group.settings.pinned_bytes;
    for (const Holder& holder : group.holders) {
      Json process = json_of(holder.process);
      process["share"] = holder.share;
      process["program"] = holder.is_program;
      one["holders"].push_back(std::move(process));
    }
    list.push_back(std::move(one));
  }
  return Json{{"version", 1}, {"groups", std::move(list)}}.dump() + "\n";
}

Result<std::vector<GroupNote>> parse_book(std::string_view json) {
  try {
    const Json all = Json::parse(json);
    std::vector<GroupNote> groups;
    for (const Json& group : all.at("groups")) groups.push_back(group_from(group));
    return groups;
  } catch (const std::exception& error) {
    return fail(ErrorCode::failed, std::string("the notes on MPS daemons cannot be read: ") + error.what());
  }
}

Result<std::vector<GroupNote>> load_book(const std::string& path) {
  constexpr std::size_t kMaxBytes = 16 << 20;
  if (::access(path.c_str(), F_OK) != 0 && errno == ENOENT) return std::vector<GroupNote>{};
  return parse_book(TRY(read_whole_file(path, kMaxBytes)).text);
}

Result<void> save_book(const std::string& path, const std::vector<GroupNote>& groups) {
  // Not durable, because PIDs mean nothing after a power failure.
  return replace_whole_file(path, book_json(groups), {.durable = false});
}

}  // namespace headgate::mps
