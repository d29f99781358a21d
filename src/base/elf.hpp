// Reads from an ELF file whether a library can be preloaded into it, and what it exports. Input is untrusted: every
// offset is checked.
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
  std::string interpreter;             // PT_INTERP; empty: static program or library
  std::vector<std::string> functions;  // defined global or weak functions of the dynamic symbol table, sorted
};

// Returns true if the bytes start like an ELF file.
[[nodiscard]] bool is_elf(std::string_view bytes);
// Errors: failed, naming the path and what is broken.
[[nodiscard]] Result<ElfFile> read_elf(const std::string& path, bool with_functions);
// Parses the file's first bytes; parts beyond them count as absent. `shown`: the name in errors.
[[nodiscard]] Result<ElfFile> read_elf_bytes(std::string_view bytes, const std::string& shown, bool with_functions);

// Returns the machine this command was built for (EM_X86_64, EM_AARCH64).
[[nodiscard]] std::uint16_t own_machine();

}  // namespace headgate
