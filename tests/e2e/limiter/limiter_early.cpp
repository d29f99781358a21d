// A program that looks names up before its first constructor, like a sanitizer's runtime, when its replacements of libc
// functions do not work.
#include <dlfcn.h>
#include <link.h>

#include <cstdio>
#include <cstdlib>

static bool up = false;
static void* early = nullptr;

extern "C" __attribute__((visibility("default"))) int dl_iterate_phdr(int (*visit)(dl_phdr_info*, std::size_t, void*),
                                                                      void* data) {
  if (!up) std::abort();
  return reinterpret_cast<decltype(&dl_iterate_phdr)>(dlsym(RTLD_NEXT, "dl_iterate_phdr"))(visit, data);
}

static void look_up(int, char**, char**) {
  early = dlsym(RTLD_NEXT, "mmap");
  up = true;
}
__attribute__((section(".preinit_array"), used)) static void (*const before_all)(int, char**, char**) = &look_up;

int main() { std::printf("%s\n", early != nullptr ? "found" : "missing"); }
