// A snapshot as JSON text and back, and the JSON Schema of it. Optionals that are empty are written as null.
// Reading is strict about types and lenient about keys: an unknown one is passed over, a missing one keeps its default,
// so that a command talks to a daemon of another version.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::snapshot {

// T: every struct of snapshot.hpp, and std::vector of one.
template <typename T>
[[nodiscard]] std::string to_json(const T& value);

// Errors: usage, with the path of the value that does not fit ("shares[2].devices[0].weight: expected a whole number").
template <typename T>
[[nodiscard]] Result<T> from_json(std::string_view text);

// {"Gpu": {"type": "object", "properties": {...}}, ...}: one schema for each struct, as text.
[[nodiscard]] std::string schemas();

}  // namespace headgate::snapshot
