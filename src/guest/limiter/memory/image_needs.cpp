#include "guest/limiter/memory/image_needs.hpp"

#include <elf.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "guest/abi/fat_binary.hpp"
#include "guest/bare/keep_errno.hpp"
#include "guest/bare/lz4.hpp"
#include "guest/bare/saturating.hpp"
#include "guest/bare/scratch.hpp"
#include "guest/limiter/memory/ptx_statics.hpp"

namespace headgate::limiter {
namespace {

using abi::FatContainer, abi::FatEntry, abi::FatWrapper;

constexpr std::uint16_t kMachine = 190;  // EM_CUDA
// No real image has more; bounds the loops over a damaged one.
constexpr std::uint32_t kMaxEntries = 4096, kMaxContainers = 4096;
// No kernel file is larger; above this the size is not reported.
constexpr std::uint64_t kLargestFile = 2ull << 30;
// For unpacked images, which this process needs memory for.
constexpr std::uint64_t kLargestUnpacked = 512ull << 20;

// False if part is unmapped. The kernel does the copy: an image with a false size must not crash the program.
bool read_at(std::uint64_t address, void* out, std::size_t bytes) {
  const iovec to{out, bytes}, from{reinterpret_cast<void*>(address), bytes};
  const bare::KeepErrno keep_errno;
  const ssize_t got = ::process_vm_readv(::getpid(), &to, 1, &from, 1, 0);
  // A seccomp filter may forbid it; the driver will read the same bytes shortly.
  const bool forbidden = got < 0 && (errno == EPERM || errno == ENOSYS);
  if (forbidden) std::memcpy(out, reinterpret_cast<const void*>(address), bytes);
  return forbidden || got == static_cast<ssize_t>(bytes);
}

template <typename T>
bool read(std::uint64_t address, T& out) {
  return read_at(address, &out, sizeof out);
}

template <std::size_t kSize>
bool name_begins(std::uint64_t names, const Elf64_Shdr& section, const char (&wanted)[kSize]) {
  char name[kSize - 1];
  return read(names + section.sh_name, name) && std::memcmp(name, wanted, sizeof name) == 0;
}

// Constant bank 0 holds each kernel's parameters and comes with its code.
bool is_code(std::uint64_t names, const Elf64_Shdr& section) {
  return (section.sh_flags & SHF_EXECINSTR) != 0 || name_begins(names, section, ".nv.constant0");
}
// Of the NOBITS sections only .nv.global is per module; .nv.shared is per block and .nv.local per thread.
bool is_static(std::uint64_t names, const Elf64_Shdr& section) {
  return section.sh_type != SHT_NOBITS || name_begins(names, section, ".nv.global");
}

ImageNeeds of_cubin(std::uint64_t image) {
  Elf64_Ehdr head;
  if (!read(image, head) || head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_machine != kMachine ||
      head.e_shentsize != sizeof(Elf64_Shdr) || head.e_shnum == 0 || head.e_shoff > kLargestFile)
    return {};
  const auto section_at = [&](unsigned index) { return image + head.e_shoff + index * sizeof(Elf64_Shdr); };
  Elf64_Shdr strings;
  if (head.e_shstrndx >= head.e_shnum || !read(section_at(head.e_shstrndx), strings)) return {};
  const std::uint64_t names = image + strings.sh_offset;
  ImageNeeds needs{.told = true};
  constexpr unsigned kAtOnce = 8;  // the stack may be small
  Elf64_Shdr sections[kAtOnce];
  for (unsigned first = 0; first < head.e_shnum; first += kAtOnce) {
    const unsigned count = head.e_shnum - first < kAtOnce ? head.e_shnum - first : kAtOnce;
    if (!read_at(section_at(first), sections, count * sizeof *sections)) return {};
    for (unsigned i = 0; i < count; ++i) {
      const Elf64_Shdr& section = sections[i];
      if ((section.sh_flags & SHF_ALLOC) == 0) continue;
      if (is_code(names, section)) needs.code_bytes = bare::saturating_add(needs.code_bytes, section.sh_size);
      else if (is_static(names, section))
        needs.static_bytes = bare::saturating_add(needs.static_bytes, section.sh_size);
    }
  }
  return needs;
}

// Returns whether a NUL ends the text within that many bytes, all of them mapped.
bool ends_within(std::uint64_t text, std::uint64_t bytes) {
  char part[256];
  for (std::uint64_t at = 0; at < bytes;) {
    const std::size_t length = bytes - at < sizeof part ? static_cast<std::size_t>(bytes - at) : sizeof part;
    if (!read_at(text + at, part, length)) return false;
    if (std::memchr(part, '\0', length) != nullptr) return true;
    at += length;
  }
  return false;
}

// Code compiled from PTX is not larger than its text.
ImageNeeds of_ptx(const char* text) {
  return {.static_bytes = static_bytes(text), .code_bytes = std::strlen(text), .told = true};
}

// Picks what the driver picks: a cubin of the GPU's major and no higher minor, else the newest PTX that is not newer.
bool is_better(const FatEntry& entry, const FatEntry& chosen, unsigned architecture) {
  const auto fits = [&](const FatEntry& each) {
    return each.kind == abi::kFatCubin
               ? each.architecture / 10 == architecture / 10 && each.architecture <= architecture
               : each.kind == abi::kFatPtx && each.architecture <= architecture;
  };
  if (!fits(entry)) return false;
  if (chosen.kind != entry.kind) return chosen.kind == 0 || entry.kind == abi::kFatCubin;
  return entry.architecture > chosen.architecture;
}

// Arrays without content are not in the packed image: only the unpacked one shows their sizes.
ImageNeeds of_packed(const FatEntry& entry, std::uint64_t payload) {
  const ImageNeeds untold{.code_bytes = entry.full_bytes};
  if (entry.full_bytes == 0 || entry.full_bytes > kLargestUnpacked || entry.packed_bytes == 0 ||
      entry.packed_bytes > entry.padded_bytes)
    return untold;
  const bare::MappedMemory packed(entry.packed_bytes), whole(entry.full_bytes + 1);  // PTX ends in a NUL
  auto* const bytes = static_cast<std::uint8_t*>(whole.at());
  if (packed.at() == nullptr || bytes == nullptr || !read_at(payload, packed.at(), entry.packed_bytes) ||
      !bare::unpack_lz4(static_cast<const std::uint8_t*>(packed.at()), entry.packed_bytes, bytes, entry.full_bytes))
    return untold;
  const ImageNeeds needs = entry.kind == abi::kFatCubin ? of_cubin(reinterpret_cast<std::uintptr_t>(bytes))
                                                        : of_ptx(reinterpret_cast<const char*>(bytes));
  return needs.told ? needs : untold;
}

ImageNeeds of_container(std::uint64_t address, unsigned architecture) {
  FatContainer container;
  if (!read(address, container) || container.magic != abi::kFatContainerMagic) return {};
  std::uint64_t at = bare::saturating_add(address, container.header_bytes), payload = 0;
  const std::uint64_t end = bare::saturating_add(at, container.bytes);
  FatEntry chosen{};
  for (std::uint32_t i = 0; i < kMaxEntries && at < end; ++i) {
    FatEntry entry;
    if (!read(at, entry) || entry.header_bytes < sizeof entry) return {};
    if (is_better(entry, chosen, architecture)) chosen = entry, payload = at + entry.header_bytes;
    at = bare::saturating_add(at, bare::saturating_add(entry.header_bytes, entry.padded_bytes));
  }
  if (chosen.kind == 0) return {};
  if ((chosen.flags & abi::kFatZstd) != 0) return {.code_bytes = chosen.full_bytes};
  if ((chosen.flags & abi::kFatLz4) != 0) return of_packed(chosen, payload);
  if (chosen.kind == abi::kFatCubin) return of_cubin(payload);
  if (!ends_within(payload, chosen.padded_bytes)) return {};
  return of_ptx(reinterpret_cast<const char*>(payload));
}

void add(ImageNeeds& sum, const ImageNeeds& more) {
  sum.static_bytes = bare::saturating_add(sum.static_bytes, more.static_bytes);
  sum.code_bytes = bare::saturating_add(sum.code_bytes, more.code_bytes);
  sum.told = sum.told && more.told;
}

ImageNeeds of_wrapper(std::uint64_t address, unsigned architecture) {
  FatWrapper wrapper;
  if (!read(address, wrapper)) return {};
  std::uint64_t container = 0;
  if (wrapper.version < 2 || wrapper.list == 0 || !read(wrapper.list, container) || container == 0)
    return of_container(wrapper.container, architecture);
  ImageNeeds needs{.told = true};
  for (std::uint32_t i = 0; i < kMaxContainers && read(wrapper.list + i * sizeof container, container); ++i) {
    if (container == 0) return needs;
    add(needs, of_container(container, architecture));
  }
  return {};
}

}  // namespace

ImageNeeds needs_of_image(const void* image, unsigned architecture) {
  const auto address = reinterpret_cast<std::uintptr_t>(image);
  std::uint32_t magic = 0;
  if (image == nullptr || !read(address, magic)) return {};
  if (magic == abi::kFatWrapperMagic) return of_wrapper(address, architecture);
  if (magic == abi::kFatContainerMagic) return of_container(address, architecture);
  if (std::memcmp(&magic, ELFMAG, SELFMAG) == 0) return of_cubin(address);
  return is_ptx(image) ? of_ptx(static_cast<const char*>(image)) : ImageNeeds{};
}

ImageNeeds needs_of_file(const char* path, unsigned architecture) {
  if (path == nullptr) return {};
  const bare::KeepErrno keep_errno;
  ImageNeeds needs;
  if (const int fd = ::open(path, O_RDONLY | O_CLOEXEC); fd >= 0) {
    const off_t size = ::lseek(fd, 0, SEEK_END);
    if (size > 0 && static_cast<std::uint64_t>(size) < kLargestFile) {
      const auto bytes = static_cast<std::size_t>(size);
      const bare::MappedMemory copy(bytes + 1);  // PTX ends in a NUL
      if (copy.at() != nullptr && ::pread(fd, copy.at(), bytes, 0) == size)
        needs = needs_of_image(copy.at(), architecture);
    }
    ::close(fd);
  }
  return needs;
}

}  // namespace headgate::limiter
