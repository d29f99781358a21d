// A library of a program's own: asks for the next definition after itself, and has a function that only looks like the
// driver's.
#include <dlfcn.h>

extern "C" void* helper_next(const char* name) { return dlsym(RTLD_NEXT, name); }
extern "C" void* helper_default(const char* name) { return dlsym(RTLD_DEFAULT, name); }
extern "C" unsigned cuStreamSynchronize(void*) { return 4242; }
extern "C" unsigned helper_synchronize() { return cuStreamSynchronize(nullptr); }
