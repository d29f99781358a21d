// Writes a whole text to a descriptor, in as many writes as needed.
#pragma once

#include <string_view>

namespace headgate {

// Returns 0, or the errno of the failed write; earlier bytes have been written.
[[nodiscard]] int write_all(int fd, std::string_view text);

}  // namespace headgate
