// Reads from an ELF file whether a library can be preloaded into it, and what it exports. Input is untrusted: every
// offset is checked, and no table is read beyond a limit.
#pragma once

#include <cstdint>
#include <functional>
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

// Copies bytes of the file from that offset on; returns false if the file does not have all of them.
using ElfBytes = std::function<bool(void* out, std::size_t bytes, std::uint64_t offset)>;
[[nodiscard]] ElfBytes elf_bytes(int fd);  // of an open file, which must stay open
// Parses what `file` reads, without functions. Errors: as of read_elf().
[[nodiscard]] Result<ElfFile> parse_elf(const ElfBytes& file, const std::string& shown);

struct ElfSymbol {
  std::string_view name;           // cut after 1024 bytes; valid during the visit
  unsigned type = 0, binding = 0;  // STT_*, STB_*
};
// Visits the symbols that the dynamic symbol table, found by its sections, defines: at most 65,536. First asks
// `may_read` for as many bytes and symbols; if that returns false, visits none.
void each_elf_symbol(const ElfBytes& file,
                     const std::function<bool(std::uint64_t bytes, std::uint64_t symbols)>& may_read,
                     const std::function<void(const ElfSymbol&)>& visit);

// Returns the machine this command was built for (EM_X86_64, EM_AARCH64).
[[nodiscard]] std::uint16_t own_machine();

}  // namespace headgate
