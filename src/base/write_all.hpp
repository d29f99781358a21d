// All of a text into a descriptor, however many writes that takes.
#pragma once

#include <string_view>

namespace headgate {

// 0, or the errno of the write that failed; what came before it has been written.
[[nodiscard]] int write_all(int fd, std::string_view text);

}  // namespace headgate
