// contract_check [--constructor] LIB.so: checks that a built preload library may be loaded into any process. A needed
// library or symbol version that an older system lacks does not fail softly: it kills every program. --constructor: a
// library that works when loaded; it has one constructor and exports nothing. Prints one line per finding; exit status
// 0 if there are none. Runs wherever the library itself runs.
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr const char* kMayNeed[] = {"libc.so.6", "libdl.so.2", "libpthread.so.0"};
constexpr int kNewestMinor = 17;  // GLIBC_2.17
// Initialized data is read from the file, and its first write copies a page in each process that loads the library.
// Zero-initialized data is in .bss and costs nothing until it is used.
constexpr unsigned long long kMaxDataBytes = 128 << 10;

int findings = 0;

#define FIND(...) (std::printf(__VA_ARGS__), std::putchar('\n'), ++findings)

struct File {
  const char* bytes = nullptr;
  std::size_t size = 0;

  template <typename T>
  const T* at(std::uint64_t offset, std::uint64_t count = 1) const {
    if (offset > size || count > (size - offset) / sizeof(T)) {
      std::printf("truncated: %llu bytes are too few\n", static_cast<unsigned long long>(size));
      std::exit(1);
    }
    return reinterpret_cast<const T*>(bytes + offset);
  }
};

struct Sections {
  const Elf64_Shdr* first;
  unsigned count;

  const Elf64_Shdr* of_type(unsigned type) const {
    for (unsigned i = 0; i < count; ++i) {
      if (first[i].sh_type == type) return &first[i];
    }
    return nullptr;
  }
};

bool may_need(const char* name) {
  for (const char* allowed : kMayNeed) {
    if (std::strcmp(name, allowed) == 0) return true;
  }
  // Not even the dynamic linker is allowed, although every process has it already.
  return false;
}

bool may_export(const char* name) {
  const bool cuda = std::strncmp(name, "cu", 2) == 0 && name[2] >= 'A' && name[2] <= 'Z';
  const bool nvml = std::strncmp(name, "nvml", 4) == 0 && name[4] >= 'A' && name[4] <= 'Z';
  return cuda || nvml || std::strcmp(name, "dlsym") == 0 || std::strcmp(name, "dlvsym") == 0;
}

void check_dynamic(const File& file, const Sections& sections) {
  const Elf64_Shdr* dynamic = sections.of_type(SHT_DYNAMIC);
  if (dynamic == nullptr) {
    FIND("no dynamic section: not a shared library");
    return;
  }
  const Elf64_Shdr& strings = sections.first[dynamic->sh_link];
  for (std::uint64_t i = 0; i < dynamic->sh_size / sizeof(Elf64_Dyn); ++i) {
    const Elf64_Dyn& entry = *file.at<Elf64_Dyn>(dynamic->sh_offset + i * sizeof(Elf64_Dyn));
    if (entry.d_tag == DT_NEEDED) {
      const char* name = file.at<char>(strings.sh_offset + entry.d_un.d_val);
      if (!may_need(name)) FIND("needs %s", name);
    }
    if (entry.d_tag == DT_RPATH || entry.d_tag == DT_RUNPATH) FIND("sets its own search path (DT_RPATH or DT_RUNPATH)");
    if (entry.d_tag == DT_TEXTREL) FIND("needs its code rewritten at load (DT_TEXTREL)");
  }
}

void check_versions(const File& file, const Sections& sections) {
  const Elf64_Shdr* needed = sections.of_type(SHT_GNU_verneed);
  if (needed == nullptr) return;
  const Elf64_Shdr& strings = sections.first[needed->sh_link];
  std::uint64_t at = needed->sh_offset;
  for (unsigned i = 0; i < needed->sh_info; ++i) {
    const auto* library = file.at<Elf64_Verneed>(at);
    std::uint64_t part = at + library->vn_aux;
    for (unsigned j = 0; j < library->vn_cnt; ++j) {
      const auto* version = file.at<Elf64_Vernaux>(part);
      const char* name = file.at<char>(strings.sh_offset + version->vna_name);
      int major = 0, minor = 0;
      const bool glibc = std::sscanf(name, "GLIBC_%d.%d", &major, &minor) == 2;
      if (!glibc || major != 2 || minor > kNewestMinor) {
        FIND("needs symbol version %s of %s; the newest allowed is GLIBC_2.%d", name,
             file.at<char>(strings.sh_offset + library->vn_file), kNewestMinor);
      }
      part += version->vna_next;
    }
    at += library->vn_next;
  }
}

void check_symbols(const File& file, const Sections& sections, bool works_when_loaded) {
  const Elf64_Shdr* table = sections.of_type(SHT_DYNSYM);
  if (table == nullptr) {
    FIND("no dynamic symbols");
    return;
  }
  const Elf64_Shdr& strings = sections.first[table->sh_link];
  unsigned exported = 0;
  for (std::uint64_t i = 1; i < table->sh_size / sizeof(Elf64_Sym); ++i) {
    const Elf64_Sym& symbol = *file.at<Elf64_Sym>(table->sh_offset + i * sizeof(Elf64_Sym));
    const unsigned binding = symbol.st_info >> 4;
    if (symbol.st_shndx == SHN_UNDEF || (binding != STB_GLOBAL && binding != STB_WEAK)) continue;
    const char* name = file.at<char>(strings.sh_offset + symbol.st_name);
    if (!works_when_loaded && may_export(name)) ++exported;
    else FIND("exports %s", name);
  }
  if (exported == 0 && !works_when_loaded) FIND("exports nothing");
}

// The compiler's frame_dummy is one pointer. Any other constructor would run in every program that is started.
void check_constructors(const Sections& sections, bool works_when_loaded) {
  const Elf64_Shdr* list = sections.of_type(SHT_INIT_ARRAY);
  const unsigned long long own = list == nullptr ? 0 : list->sh_size / sizeof(Elf64_Addr) - 1;
  if (own != (works_when_loaded ? 1 : 0)) FIND("runs %llu constructors when loaded", own);
  const Elf64_Shdr* end = sections.of_type(SHT_FINI_ARRAY);
  if (end != nullptr && end->sh_size > sizeof(Elf64_Addr)) FIND("runs destructors when the program ends");
}

void check_data(const File& file, const Sections& sections, const Elf64_Ehdr& header) {
  const Elf64_Shdr& names = sections.first[header.e_shstrndx];
  unsigned long long bytes = 0;
  for (unsigned i = 0; i < sections.count; ++i) {
    const Elf64_Shdr& section = sections.first[i];
    const char* name = file.at<char>(names.sh_offset + section.sh_name, 6);
    if (section.sh_type == SHT_PROGBITS && std::strncmp(name, ".data", 5) == 0) bytes += section.sh_size;
  }
  if (bytes > kMaxDataBytes)
    FIND("has %llu bytes of initialized data, at most %llu: let it begin as zero", bytes, kMaxDataBytes);
}

}  // namespace

int main(int argc, char** argv) {
  const bool works_when_loaded = argc == 3 && std::strcmp(argv[1], "--constructor") == 0;
  if (argc != 2 && !works_when_loaded) {
    std::fprintf(stderr, "usage: contract_check [--constructor] LIB.so\n");
    return 2;
  }
  const char* const path = argv[argc - 1];
  const int fd = ::open(path, O_RDONLY);
  struct stat status{};
  if (fd < 0 || ::fstat(fd, &status) != 0) {
    std::perror(path);
    return 2;
  }
  File file;
  file.size = static_cast<std::size_t>(status.st_size);
  void* mapped = ::mmap(nullptr, file.size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (mapped == MAP_FAILED) {
    std::perror(path);
    return 2;
  }
  file.bytes = static_cast<const char*>(mapped);
  const auto* header = file.at<Elf64_Ehdr>(0);
  if (std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64) {
    std::printf("%s is not a 64-bit ELF file\n", path);
    return 1;
  }
  const Sections sections{file.at<Elf64_Shdr>(header->e_shoff, header->e_shnum), header->e_shnum};
  check_dynamic(file, sections);
  check_versions(file, sections);
  check_symbols(file, sections, works_when_loaded);
  check_constructors(sections, works_when_loaded);
  check_data(file, sections, *header);
  if (findings == 0) std::printf("%s keeps the guest contract\n", path);
  return findings == 0 ? 0 : 1;
}
