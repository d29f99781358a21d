/* Preloaded after libheadgate.so into another release's shell: walks the first steps of a CUDA program through the
 * limiter before main(), and ends the process with 0, or with the number of the step that answered wrongly. A library
 * rather than a program, because a program linked here would need this machine's C library. */
#include <stddef.h>
#include <unistd.h>

int cuInit(unsigned flags);
int cuDeviceGet(int* device, int ordinal);
int cuCtxCreate_v2(void** context, unsigned flags, int device);
int cuMemAlloc_v2(unsigned long long* pointer, size_t bytes);
int cuMemFree_v2(unsigned long long pointer);

enum { kSuccess = 0, kOutOfMemory = 2 };

static int steps(void) {
  int device = -1;
  void* context = NULL;
  unsigned long long pointer = 0;
  if (cuInit(0) != kSuccess) return 1;
  if (cuDeviceGet(&device, 0) != kSuccess) return 2;
  if (cuCtxCreate_v2(&context, 0, device) != kSuccess) return 3;
  if (cuMemAlloc_v2(&pointer, 64u << 20) != kSuccess) return 4;
  if (cuMemAlloc_v2(&pointer, (size_t)2 << 30) != kOutOfMemory) return 5; /* the share is 1 GiB */
  return 0;
}

__attribute__((constructor)) static void probe(void) { _exit(steps()); }
