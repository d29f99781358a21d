#include "base/elf.hpp"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/unique_fd.hpp"

namespace headgate {
namespace {

constexpr std::uint16_t kMaxSegments = 64, kMaxSections = 128;
constexpr std::uint64_t kMaxSymbols = 65'536, kMaxNames = 8u << 20, kMaxName = 1024;

template <typename T>
bool read_at(const ElfBytes& file, std::uint64_t offset, T& out) {
  return file(&out, sizeof out, offset);
}

bool read_header(const ElfBytes& file, Elf64_Ehdr& header) {
  return read_at(file, 0, header) && std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0;
}

Result<ElfFile> parse(const ElfBytes& file, const std::string& path, bool with_functions) {
  ElfFile parsed = TRY(parse_elf(file, path));
  if (!with_functions) return parsed;
  each_elf_symbol(
      file, [](std::uint64_t, std::uint64_t) { return true; },
      [&](const ElfSymbol& symbol) {
        if ((symbol.type == STT_FUNC || symbol.type == STT_GNU_IFUNC) && symbol.binding != STB_LOCAL)
          parsed.functions.emplace_back(symbol.name);
      });
  std::ranges::sort(parsed.functions);
  parsed.functions.erase(std::ranges::unique(parsed.functions).begin(), parsed.functions.end());
  return parsed;
}

}  // namespace

bool is_elf(std::string_view bytes) { return bytes.starts_with(ELFMAG); }

std::uint16_t own_machine() {
#if defined(__x86_64__)
  return EM_X86_64;
#elif defined(__aarch64__)
  return EM_AARCH64;
#else
  return EM_NONE;
#endif
}

ElfBytes elf_bytes(int fd) {
  return [fd](void* out, std::size_t bytes, std::uint64_t offset) {
    return ::pread(fd, out, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
  };
}

Result<ElfFile> read_elf(const std::string& path, bool with_functions) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat facts{};
  if (!fd || ::fstat(fd.get(), &facts) != 0) return fail_errno("cannot read " + path, errno);
  if (!S_ISREG(facts.st_mode)) return fail(ErrorCode::failed, path + " is no ELF file");
  return parse(elf_bytes(fd.get()), path, with_functions);
}

Result<ElfFile> read_elf_bytes(std::string_view text, const std::string& path, bool with_functions) {
  const ElfBytes file = [text](void* out, std::size_t bytes, std::uint64_t offset) {
    if (offset > text.size() || text.size() - offset < bytes) return false;
    std::memcpy(out, text.data() + offset, bytes);
    return true;
  };
  return parse(file, path, with_functions);
}

Result<ElfFile> parse_elf(const ElfBytes& file, const std::string& path) {
  Elf64_Ehdr header{};
  if (!read_header(file, header)) return fail(ErrorCode::failed, path + " is no ELF file");
  ElfFile parsed{.is_64_bit = header.e_ident[EI_CLASS] == ELFCLASS64, .machine = header.e_machine};
  if (!parsed.is_64_bit || header.e_ident[EI_DATA] != ELFDATA2LSB) return parsed;
  for (std::uint16_t i = 0; i < std::min(header.e_phnum, kMaxSegments); ++i) {
    Elf64_Phdr segment{};
    if (!read_at(file, header.e_phoff + std::uint64_t{i} * header.e_phentsize, segment))
      return fail(ErrorCode::failed, path + " is a broken ELF file: its program headers end early");
    if (segment.p_type != PT_INTERP) continue;
    std::string name(std::min<std::uint64_t>(segment.p_filesz, kMaxName), '\0');
    if (file(name.data(), name.size(), segment.p_offset)) parsed.interpreter = name.c_str();
  }
  return parsed;
}

void each_elf_symbol(const ElfBytes& file, const std::function<bool(std::uint64_t, std::uint64_t)>& may_read,
                     const std::function<void(const ElfSymbol&)>& visit) {
  Elf64_Ehdr header{};
  if (!read_header(file, header) || header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_shentsize != sizeof(Elf64_Shdr))
    return;
  for (std::uint16_t i = 0; i < std::min(header.e_shnum, kMaxSections); ++i) {
    Elf64_Shdr symbols{}, names{};
    if (!read_at(file, header.e_shoff + i * sizeof symbols, symbols)) return;
    if (symbols.sh_type != SHT_DYNSYM || !read_at(file, header.e_shoff + symbols.sh_link * sizeof names, names))
      continue;
    const std::uint64_t count = std::min(symbols.sh_size / sizeof(Elf64_Sym), kMaxSymbols);
    const std::uint64_t bytes = count * sizeof(Elf64_Sym), length = std::min(names.sh_size, kMaxNames);
    if (!may_read(bytes + length, count)) return;
    std::vector<Elf64_Sym> table(count);
    std::string text(length, '\0');
    if (!file(table.data(), bytes, symbols.sh_offset) || !file(text.data(), length, names.sh_offset)) return;
    for (const Elf64_Sym& symbol : table) {
      if (symbol.st_shndx == SHN_UNDEF || symbol.st_name >= text.size()) continue;
      // Look no further: without an end, a name is as long as the table.
      const std::string_view rest = std::string_view(text).substr(symbol.st_name, kMaxName);
      visit({.name = rest.substr(0, rest.find('\0')),
             .type = static_cast<unsigned>(ELF64_ST_TYPE(symbol.st_info)),
             .binding = static_cast<unsigned>(ELF64_ST_BIND(symbol.st_info))});
    }
    return;
  }
}

}  // namespace headgate
