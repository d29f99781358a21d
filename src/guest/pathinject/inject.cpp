// libheadgate-path.so: preloaded, it adds entries to PATH, LD_LIBRARY_PATH and LD_PRELOAD before the program's main()
// begins, as the variables below say. The program sees it in its environment and hands it on; of the LD_ ones the
// loader has read its own already, so they act on what the program starts.
//
// Says nothing, makes no thread, opens nothing, and does nothing in a program with raised privileges.
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "guest/pathinject/list.hpp"

namespace headgate::pathinject {
namespace {

struct List {
  const char* name;
  std::string_view separators;
  const char *prepend[2], *append[2];  // names of the variables that say what is added: ours, then vgpu.rs's
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

// The kernel takes no longer NAME=VALUE (MAX_ARG_STRLEN of linux/binfmts.h): with one in its environment a program
// could not start any other.
constexpr std::size_t kLongestEntry = 131'072;
// Each entry is looked for in the whole list.
constexpr std::size_t kLongestAddition = 8'192;

// In .bss: a program that adds nothing never touches it, and a stack may be small.
constinit char buffer[kLongestEntry];

// The place of NAME=VALUE in the environment; nullptr where there is none. Not getenv() and setenv(): a program may
// have its own, as bash has, which serve from elsewhere once it is at work. What its main() gets is this list.
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

// A PATH that is not set is none that is empty: whoever looks a program up takes the system's default then, and must
// still find what is there.
std::string_view current(const List& list, std::span<char> room) {
  if (find(list.name) != nullptr || &list != &kLists[0]) return value(list.name);
  const std::size_t size = ::confstr(_CS_PATH, room.data(), room.size());
  return size == 0 || size > room.size() ? std::string_view{} : std::string_view(room.data(), size - 1);
}

// For as long as the program runs; not its allocator's business. nullptr where there is no room.
void* keep(std::size_t bytes) {
  void* const room = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return room == MAP_FAILED ? nullptr : room;
}

// In the place that the variable has, so that programs see it which read the list where the kernel has put it; else in
// a longer list.
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
  const int saved = errno;
  for (const List& list : kLists) edit(list);
  errno = saved;
}

}  // namespace
}  // namespace headgate::pathinject
