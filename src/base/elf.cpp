#include "base/elf.hpp"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>

#include "base/unique_fd.hpp"

namespace headgate {
namespace {

class Mapping {
 public:
  Mapping(void* at, std::size_t size) : at_(at), size_(size) {}
  Mapping(Mapping&& other) noexcept : at_(std::exchange(other.at_, nullptr)), size_(other.size_) {}
  ~Mapping() {
    if (at_ != nullptr) ::munmap(at_, size_);
  }
  [[nodiscard]] std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(at_), size_}; }

 private:
  void* at_;
  std::size_t size_;
};

Result<Mapping> map_file(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return fail_errno("cannot read " + path, errno);
  struct stat facts{};
  if (::fstat(fd.get(), &facts) != 0) return fail_errno("cannot read " + path, errno);
  if (!S_ISREG(facts.st_mode) || facts.st_size < static_cast<off_t>(sizeof(Elf64_Ehdr)))
    return fail(ErrorCode::failed, path + " is no ELF file");
  const auto size = static_cast<std::size_t>(facts.st_size);
  void* at = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (at == MAP_FAILED) return fail_errno("cannot read " + path, errno);
  return Mapping(at, size);
}

// Copies the struct at an offset; returns false if the file ends before it.
template <typename T>
bool copy_at(std::span<const std::byte> bytes, std::uint64_t offset, T& out) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return false;
  std::memcpy(&out, bytes.data() + offset, sizeof(T));
  return true;
}

// Returns the NUL-terminated text inside [offset, offset + size).
std::string text_at(std::span<const std::byte> bytes, std::uint64_t offset, std::uint64_t size) {
  if (offset >= bytes.size()) return {};
  size = std::min<std::uint64_t>(size, bytes.size() - offset);
  const char* start = reinterpret_cast<const char*>(bytes.data() + offset);
  return {start, ::strnlen(start, size)};
}

void read_functions(std::span<const std::byte> bytes, const Elf64_Ehdr& header, ElfFile& file) {
  for (std::uint32_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section{}, strings{};
    if (!copy_at(bytes, header.e_shoff + std::uint64_t{i} * header.e_shentsize, section)) return;
    if (section.sh_type != SHT_DYNSYM || section.sh_entsize != sizeof(Elf64_Sym)) continue;
    if (!copy_at(bytes, header.e_shoff + std::uint64_t{section.sh_link} * header.e_shentsize, strings)) return;
    for (std::uint64_t at = 0; at + sizeof(Elf64_Sym) <= section.sh_size; at += sizeof(Elf64_Sym)) {
      Elf64_Sym symbol{};
      if (!copy_at(bytes, section.sh_offset + at, symbol)) return;
      const auto type = ELF64_ST_TYPE(symbol.st_info);
      const auto binding = ELF64_ST_BIND(symbol.st_info);
      if (symbol.st_shndx == SHN_UNDEF || (type != STT_FUNC && type != STT_GNU_IFUNC) || binding == STB_LOCAL) continue;
      if (symbol.st_name >= strings.sh_size) continue;
      file.functions.push_back(text_at(bytes, strings.sh_offset + symbol.st_name, strings.sh_size - symbol.st_name));
    }
  }
  std::ranges::sort(file.functions);
  file.functions.erase(std::ranges::unique(file.functions).begin(), file.functions.end());
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

Result<ElfFile> read_elf(const std::string& path, bool with_functions) {
  const Mapping mapping = TRY(map_file(path));
  const auto bytes = mapping.bytes();
  return read_elf_bytes({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, path, with_functions);
}

Result<ElfFile> read_elf_bytes(std::string_view text, const std::string& path, bool with_functions) {
  const auto bytes = std::as_bytes(std::span(text));
  Elf64_Ehdr header{};
  if (!copy_at(bytes, 0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    return fail(ErrorCode::failed, path + " is no ELF file");
  ElfFile file{.is_64_bit = header.e_ident[EI_CLASS] == ELFCLASS64,
               .machine = header.e_machine,
               .interpreter = {},
               .functions = {}};
  if (!file.is_64_bit || header.e_ident[EI_DATA] != ELFDATA2LSB) return file;
  for (std::uint32_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment{};
    if (!copy_at(bytes, header.e_phoff + std::uint64_t{i} * header.e_phentsize, segment))
      return fail(ErrorCode::failed, path + " is a broken ELF file: its program headers end early");
    if (segment.p_type == PT_INTERP) file.interpreter = text_at(bytes, segment.p_offset, segment.p_filesz);
  }
  if (with_functions) read_functions(bytes, header, file);
  return file;
}

}  // namespace headgate
