// toml++ as this room includes it: every .cpp that uses it includes this header, for its functions are inline and must be one.
//
// toml++ 3.3 asserts that a table header begins with a key before it looks whether it does: "[ = 1" in a file would abort the
// program, or with NDEBUG be undefined. Without the assertion its own check answers with an error.
#pragma once

#undef NDEBUG
#define TOML_ASSERT(expr) static_cast<void>(0)
#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>
