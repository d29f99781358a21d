// path_probe LIB [null]: loads the library as ld.so does for LD_PRELOAD, even if that would be ignored. Prints whether
// the program is privileged, and its PATH. null: with an empty environment.
#include <dlfcn.h>
#include <sys/auxv.h>

#include <cstdio>
#include <cstdlib>

extern char** environ;

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  if (argc > 2) environ = nullptr;
  if (::dlopen(argv[1], RTLD_NOW) == nullptr) return std::fprintf(stderr, "%s\n", ::dlerror()), 1;
  const char* const path = std::getenv("PATH");
  std::printf("secure %lu, PATH %s\n", ::getauxval(AT_SECURE), path == nullptr ? "unset" : path);
  return 0;
}
