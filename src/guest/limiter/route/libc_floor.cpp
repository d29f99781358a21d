// Binds the limiter's libc functions to versions that every glibc since 2.17 has.
//
// glibc 2.32 to 2.34 moved libdl, libpthread and librt into libc under new symbol versions. A plain reference built
// here would need those and kill every process on an older system. Each function below hides libc's inside this library
// (the linker prefers it) and calls the old version. fstat and stat were inline before 2.33.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define HEADGATE_OLD(name) __asm__(".symver headgate_old_" #name "," #name "@GLIBC_2.2.5")
#elif defined(__aarch64__)
#define HEADGATE_OLD(name) __asm__(".symver headgate_old_" #name "," #name "@GLIBC_2.17")
#else
#error "which is the first symbol version of this architecture?"
#endif

#define HEADGATE_HIDDEN __attribute__((visibility("hidden")))

HEADGATE_OLD(dlopen);
HEADGATE_OLD(dlclose);
HEADGATE_OLD(pthread_create);
HEADGATE_OLD(pthread_join);
HEADGATE_OLD(pthread_detach);
HEADGATE_OLD(pthread_sigmask);
HEADGATE_OLD(pthread_once);

extern "C" {

void* headgate_old_dlopen(const char*, int);
int headgate_old_dlclose(void*);
int headgate_old_pthread_create(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
int headgate_old_pthread_join(pthread_t, void**);
int headgate_old_pthread_detach(pthread_t);
int headgate_old_pthread_sigmask(int, const sigset_t*, sigset_t*);
int headgate_old_pthread_once(pthread_once_t*, void (*)());

HEADGATE_HIDDEN void* dlopen(const char* name, int mode) noexcept { return headgate_old_dlopen(name, mode); }
HEADGATE_HIDDEN int dlclose(void* handle) noexcept { return headgate_old_dlclose(handle); }
HEADGATE_HIDDEN int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                                   void* argument) noexcept {
  return headgate_old_pthread_create(thread, attributes, start, argument);
}
HEADGATE_HIDDEN int pthread_join(pthread_t thread, void** result) { return headgate_old_pthread_join(thread, result); }
HEADGATE_HIDDEN int pthread_detach(pthread_t thread) noexcept { return headgate_old_pthread_detach(thread); }
HEADGATE_HIDDEN int pthread_sigmask(int how, const sigset_t* set, sigset_t* old) noexcept {
  return headgate_old_pthread_sigmask(how, set, old);
}
HEADGATE_HIDDEN int pthread_once(pthread_once_t* once, void (*routine)()) {
  return headgate_old_pthread_once(once, routine);
}

HEADGATE_HIDDEN int fstat(int fd, struct stat* out) noexcept {
  return static_cast<int>(::syscall(SYS_newfstatat, fd, "", out, AT_EMPTY_PATH));
}
HEADGATE_HIDDEN int stat(const char* path, struct stat* out) noexcept {
  return static_cast<int>(::syscall(SYS_newfstatat, AT_FDCWD, path, out, 0));
}
HEADGATE_HIDDEN int lstat(const char* path, struct stat* out) noexcept {
  return static_cast<int>(::syscall(SYS_newfstatat, AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW));
}
HEADGATE_HIDDEN int fstatat(int directory, const char* path, struct stat* out, int flags) noexcept {
  return static_cast<int>(::syscall(SYS_newfstatat, directory, path, out, flags));
}

}  // extern "C"
