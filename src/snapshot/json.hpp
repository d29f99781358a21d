// Writes and reads a snapshot as JSON, and gives its JSON Schema. Empty optionals are written as null. Reading is
// strict about types but ignores unknown keys, and missing keys keep their defaults, so that a command can talk to a
// daemon of another version.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::snapshot {

// T: any struct of snapshot.hpp, or a std::vector of one.
template <typename T>
[[nodiscard]] std::string to_json(const T& value);

// Errors: usage, with the path of the wrong value ("shares[2].devices[0].weight: expected a whole number").
template <typename T>
[[nodiscard]] Result<T> from_json(std::string_view text);

// Returns {"Gpu": {"type": "object", "properties": {...}}, ...}: one schema per struct, as text.
[[nodiscard]] std::string schemas();

}  // namespace headgate::snapshot
