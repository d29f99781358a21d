// What a command's options store of a command line, for tests.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/parse.hpp"

namespace headgate::cli {

template <typename Own>
struct Read {
  Call call;
  Own own;
  std::vector<std::string> warnings;
};

// `words`: all behind "headgate".
template <typename Own>
Result<Read<Own>> read_words(const std::string& name, const std::function<void(Options&, Own&)>& add_options,
                             std::vector<const char*> words) {
  Read<Own> read;
  Commands table;
  if (const std::size_t blank = name.find(' '); blank != std::string::npos)
    table.push_back(parent_command(kManage, name.substr(0, blank), ""));
  table.push_back(command<Own>(kLook, name, "", add_options, [&read](const Call&, const Own& own) -> Result<int> {
    read.own = own;
    return 0;
  }));
  words.insert(words.begin(), "headgate");
  auto parsed = TRY(parse(table, static_cast<int>(words.size()), words.data()));
  TRY(parsed.run(parsed.call));
  read.call = std::move(parsed.call);
  read.warnings = std::move(parsed.warnings);
  return read;
}

}  // namespace headgate::cli
