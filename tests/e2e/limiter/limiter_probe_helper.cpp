// A library of the program: looks up the next definition after itself, and has a function that only resembles the
// driver's.
#include <dlfcn.h>

extern "C" void* helper_next(const char* name) { return dlsym(RTLD_NEXT, name); }
extern "C" void* helper_default(const char* name) { return dlsym(RTLD_DEFAULT, name); }
extern "C" unsigned cuStreamSynchronize(void*) { return 4242; }
extern "C" unsigned helper_synchronize() { return cuStreamSynchronize(nullptr); }
