// Declarations of variables and parameters in PTX.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/ptx.hpp"
#include "sim/ptx_reader.hpp"

namespace headgate::sim::ptx {

inline constexpr std::uint64_t kLargestVariable = std::uint64_t{1} << 48;

// A declared variable or parameter in any state space.
struct Variable {
  std::string name;
  Scalar scalar = Scalar::opaque;
  std::uint64_t bytes = 0;
  std::uint32_t alignment = 1;
  bool unsized = false;  // name[] without initialiser
  unsigned line = 0;     // on which it ends
};

class VariableReader : protected Reader {
 protected:
  using Reader::Reader;

  // Type and one name: ".align 4 .b8 name[16]", ".u64 .ptr .global .align 16 name", ".v4 .f32 name".
  Result<Variable> declaration(bool parameter);
  // ".u32 one, two[4];"
  Result<std::vector<Variable>> variables();

 private:
  // Parses name, dimensions and initialiser of a variable of the type read last.
  Result<Variable> named_variable();
  Result<void> register_range(Variable& made);
  // Returns the number of elements at the outermost level of "= {1, 2, 3}"; 1 for "= 7". Bounded by the text's length.
  Result<std::uint64_t> initialiser();

  // The type read last, of all its vector's elements.
  Scalar scalar_ = Scalar::opaque;
  std::uint32_t bytes_ = 0, alignment_ = 1;
};

}  // namespace headgate::sim::ptx
