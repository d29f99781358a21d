// What an ELF file says about itself: enough to know whether a library can be preloaded into it, and what it exports.
// Hostile files are expected: every offset is checked.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace headgate {

struct ElfFile {
  bool is_64_bit = false;
  std::uint16_t machine = 0;           // EM_*
  std::string interpreter;             // PT_INTERP; empty: static, or a library
  std::vector<std::string> functions;  // defined global or weak functions of the dynamic symbol table, sorted
};

// True where the bytes begin as an ELF file does.
[[nodiscard]] bool is_elf(std::string_view bytes);
// Errors: failed, with the path and what is broken in it.
[[nodiscard]] Result<ElfFile> read_elf(const std::string& path, bool with_functions);
// The same of its bytes, or of as many as are there: what lies behind them is as what is not said. `shown`: in errors.
[[nodiscard]] Result<ElfFile> read_elf_bytes(std::string_view bytes, const std::string& shown, bool with_functions);

// The machine this command was built for (EM_X86_64, EM_AARCH64).
[[nodiscard]] std::uint16_t own_machine();

}  // namespace headgate
