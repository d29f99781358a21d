#include "sim/ptx_variables.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace headgate::sim::ptx {
namespace {

struct Type {
  std::string_view name;
  Scalar scalar;
  std::uint32_t bytes;
};

constexpr Type kTypes[] = {
    {".b8", Scalar::opaque, 1},
    {".u8", Scalar::unsigned_integer, 1},
    {".s8", Scalar::signed_integer, 1},
    {".b16", Scalar::unsigned_integer, 2},
    {".u16", Scalar::unsigned_integer, 2},
    {".s16", Scalar::signed_integer, 2},
    {".f16", Scalar::opaque, 2},
    {".bf16", Scalar::opaque, 2},
    {".f16x2", Scalar::opaque, 4},
    {".bf16x2", Scalar::opaque, 4},
    {".b32", Scalar::unsigned_integer, 4},
    {".u32", Scalar::unsigned_integer, 4},
    {".s32", Scalar::signed_integer, 4},
    {".f32", Scalar::floating, 4},
    {".tf32", Scalar::opaque, 4},
    {".b64", Scalar::unsigned_integer, 8},
    {".u64", Scalar::unsigned_integer, 8},
    {".s64", Scalar::signed_integer, 8},
    {".f64", Scalar::floating, 8},
    {".b128", Scalar::opaque, 16},
    {".texref", Scalar::opaque, 8},
    {".samplerref", Scalar::opaque, 8},
    {".surfref", Scalar::opaque, 8},
};

const Type* find_type(std::string_view name) {
  const auto* found = std::ranges::find(kTypes, name, &Type::name);
  return found == std::end(kTypes) ? nullptr : found;
}

}  // namespace

Result<Variable> VariableReader::declaration(bool parameter) {
  const Type* type = nullptr;
  std::uint32_t alignment = 0, vector = 1;
  while (token_.kind == TokenKind::directive) {
    if (token_.is(".align")) {
      TRY(advance());
      // After .ptr, the alignment is that of the pointee.
      const auto wanted = static_cast<std::uint32_t>(TRY(number(".align", 1U << 20)));
      if (!std::has_single_bit(wanted))
        return fail_at(token_.line, message(".align ", wanted, " is not a power of two"));
      if (!(parameter && type != nullptr)) alignment = wanted;
      continue;
    }
    if (const Type* named = find_type(token_.text)) type = named;
    if (token_.is(".v2")) vector = 2;
    if (token_.is(".v4")) vector = 4;
    const bool attribute = token_.is(".attribute");
    TRY(advance());
    if (attribute) TRY(skip_parentheses());
  }
  if (type == nullptr) return expected("a type such as .u32");
  scalar_ = vector == 1 ? type->scalar : Scalar::opaque;
  bytes_ = type->bytes * vector;
  alignment_ = std::max(alignment, bytes_);
  return named_variable();
}

Result<Variable> VariableReader::named_variable() {
  Variable made{.name = TRY(word("a variable's name")), .scalar = scalar_, .bytes = bytes_, .alignment = alignment_};
  if (token_.is("<")) TRY(register_range(made));
  bool array = false;
  while (token_.is("[")) {
    array = true;
    TRY(advance());
    if (token_.is("]")) {
      made.unsized = true;
    } else {
      const std::uint64_t count = TRY(number("an array size", kLargestVariable));
      if (count != 0 && made.bytes > kLargestVariable / count) {
        return fail_at(token_.line, message(made.name, " is larger than 2^48 bytes"));
      }
      made.bytes *= count;
    }
    TRY(expect("]"));
  }
  if (array) made.scalar = Scalar::opaque;
  if (token_.is("=")) {
    const std::uint64_t elements = TRY(initialiser());
    if (made.unsized) made.bytes *= elements, made.unsized = false;
  }
  if (made.unsized) made.bytes = 0;
  made.line = token_.line;
  return made;
}

Result<void> VariableReader::register_range(Variable& made) {
  TRY(advance());
  made.bytes *= TRY(number("a register range", 1U << 20));
  return expect(">");
}

Result<std::uint64_t> VariableReader::initialiser() {
  TRY(advance());
  if (!token_.is("{")) {
    while (!token_.is(";") && !token_.is(",") && token_.kind != TokenKind::end) {
      TRY(advance());
      if (token_.is("(")) TRY(skip_parentheses());
    }
    return std::uint64_t{1};
  }
  std::uint64_t elements = 0, depth = 0;
  bool pending = false;
  do {
    if (token_.kind == TokenKind::end) return expected("'}' of an initialiser");
    if (token_.is("{")) pending = pending || depth == 1, ++depth;
    else if (token_.is("}")) --depth;
    else if (token_.is(",") && depth == 1) elements += std::exchange(pending, false);
    else pending = pending || depth == 1;
    TRY(advance());
  } while (depth > 0);
  return elements + pending;
}

Result<std::vector<Variable>> VariableReader::variables() {
  std::vector<Variable> all = {TRY(declaration(false))};
  while (token_.is(",")) {
    TRY(advance());
    all.push_back(TRY(named_variable()));
  }
  TRY(expect(";"));
  return all;
}

}  // namespace headgate::sim::ptx
