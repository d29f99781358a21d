// libheadgate-path.so: when preloaded, adds entries to PATH, LD_LIBRARY_PATH and LD_PRELOAD before main(), as the
// variables below say. The program sees them in its environment and passes them on. The loader has already read the LD_
// lists, so those entries only affect programs that this one starts.
//
// Prints nothing, creates no thread, opens nothing, and does nothing in a program with raised privileges.
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "guest/bare/keep_errno.hpp"
#include "guest/pathinject/list.hpp"

namespace headgate::pathinject {
namespace {

struct List {
  const char* name;
  std::string_view separators;
  const char *prepend[2], *append[2];  // variables that hold the additions: ours, then vgpu.rs's
};

constexpr List kLists[] = {
    {"PATH", kPathSeparators, {"HEADGATE_PREPEND_PATH", "TF_PREPEND_PATH"}, {"HEADGATE_APPEND_PATH", "TF_PATH"}},
    {"LD_LIBRARY_PATH",
     kLibraryPathSeparators,
     {"HEADGATE_PREPEND_LD_LIBRARY_PATH", "TF_PREPEND_LD_LIBRARY_PATH"},
     {"HEADGATE_APPEND_LD_LIBRARY_PATH", "TF_LD_LIBRARY_PATH"}},
    {"LD_PRELOAD",
     kPreloadSeparators,
     {"HEADGATE_PREPEND_LD_PRELOAD", "TF_PREPEND_LD_PRELOAD"},
     {"HEADGATE_APPEND_LD_PRELOAD", "TF_LD_PRELOAD"}},
};

// The kernel's limit for NAME=VALUE (MAX_ARG_STRLEN of linux/binfmts.h): with a longer one in its environment a program
// could not exec another.
constexpr std::size_t kLongestEntry = 131'072;
// Limits the time: each entry is searched for in the whole list.
constexpr std::size_t kLongestAddition = 8'192;

// In .bss: costs nothing in a program that adds nothing; a stack may be too small.
constinit char buffer[kLongestEntry];

// Returns the slot of NAME=VALUE in environ, or nullptr. Does not use getenv() or setenv(): a program may define them
// itself, as bash does, and serve them from its own table. Its main() gets this list.
char** find(std::string_view name) {
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry)
    if (std::strncmp(*entry, name.data(), name.size()) == 0 && (*entry)[name.size()] == '=') return entry;
  return nullptr;
}

std::string_view value(std::string_view name) {
  char** const entry = find(name);
  return entry == nullptr ? std::string_view{} : std::string_view(*entry + name.size() + 1);
}

std::string_view addition(const char* name) {
  const std::string_view text = value(name);
  return text.size() > kLongestAddition ? std::string_view{} : text;
}

// If PATH is unset, returns the system's default, which programs are then looked up in: they must still be found there.
// An empty PATH stays empty.
std::string_view current(const List& list, std::span<char> room) {
  if (find(list.name) != nullptr || &list != &kLists[0]) return value(list.name);
  const std::size_t size = ::confstr(_CS_PATH, room.data(), room.size());
  return size == 0 || size > room.size() ? std::string_view{} : std::string_view(room.data(), size - 1);
}

// Maps memory that is never freed, independent of the program's allocator. Returns nullptr if mmap fails.
void* keep(std::size_t bytes) {
  void* const room = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return room == MAP_FAILED ? nullptr : room;
}

// Replaces the variable in its slot, so that programs that read the list where the kernel put it see the change.
// Without a slot, makes a longer list.
void put(std::string_view name, std::string_view entry) {
  auto* const kept = static_cast<char*>(keep(entry.size() + 1));
  if (kept == nullptr) return;
  std::memcpy(kept, entry.data(), entry.size());
  if (char** const place = find(name)) {
    *place = kept;
    return;
  }
  std::size_t count = 0;
  while (environ[count] != nullptr) ++count;
  auto** const longer = static_cast<char**>(keep((count + 2) * sizeof(char*)));
  if (longer == nullptr) return;
  std::memcpy(longer, environ, count * sizeof(char*));
  longer[count] = kept;
  environ = longer;
}

void edit(const List& list) {
  const Additions additions = {{addition(list.prepend[0]), addition(list.prepend[1])},
                               {addition(list.append[0]), addition(list.append[1])}};
  if (additions == Additions{}) return;
  const std::string_view name = list.name;
  char usual[256];
  std::memcpy(buffer, name.data(), name.size());
  buffer[name.size()] = '=';
  const std::span<char> rest{buffer + name.size() + 1, sizeof buffer - name.size() - 1};
  if (edited(current(list, usual), additions, list.separators, rest)) put(name, buffer);
}

[[gnu::constructor]] void inject() {
  if (::getauxval(AT_SECURE) != 0 || environ == nullptr) return;
  const bare::KeepErrno keep_errno;
  for (const List& list : kLists) edit(list);
}

}  // namespace
}  // namespace headgate::pathinject
