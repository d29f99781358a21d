// The input is an image: a wrapper, a container, a cubin or PTX. It ends at the end of a page without a successor, so
// that an overread crashes the fuzzer. A text ends in a NUL, as the driver requires.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "guest/limiter/memory/image_needs.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto page = static_cast<std::size_t>(::getpagesize());
  const std::size_t room = (size + 1 + page - 1) / page * page;
  void* const pages = ::mmap(nullptr, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) std::abort();
  char* const end = static_cast<char*>(pages) + room;
  ::mprotect(end, page, PROT_NONE);
  char* const image = end - size - 1;
  if (size != 0) std::memcpy(image, data, size);
  for (const unsigned architecture : {70U, 90U, 120U}) {
    const auto needs = headgate::limiter::needs_of_image(image, architecture);
    static_cast<void>(needs);
  }
  ::munmap(pages, room + page);
  return 0;
}
