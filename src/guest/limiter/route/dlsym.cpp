// dlsym and dlvsym: who asks for a governed function gets our hook, exactly where he would have got the driver's.
// The exported entry points are assembly (dlsym_ARCH.S): what we do not answer leaves by a tail jump, because the real
// functions look at their caller.
#include <dlfcn.h>

#include "guest/bare/elf.hpp"
#include "guest/limiter/route/driver.hpp"
#include "guest/limiter/route/governed.hpp"
#include "guest/limiter/route/library.hpp"
#include "guest/limiter/route/real_dl.hpp"

namespace headgate::limiter {
namespace {

__thread bool inside __attribute__((tls_model("initial-exec")));

struct Question {
  void* handle;
  const char* name;
  const char* version;  // nullptr for dlsym
  const void* caller;
};

void* ask(const Question& question, void* handle) {
  return question.version == nullptr ? real_dl().dlsym(handle, question.name)
                                     : real_dl().dlvsym(handle, question.name, question.version);
}

bool same(const char* a, const char* b) {  // strcmp may not work yet (elf.hpp)
  while (*a != 0 && *a == *b) ++a, ++b;
  return *a == *b;
}

// A copy of the driver's library under another file name is another library to the dynamic linker, and says in itself
// what it is a copy of.
bool is_copy(const char* soname, const void* address) {
  bare::Object object;
  if (address == nullptr || !bare::object_at(address, object)) return false;
  const char* const its_own = bare::soname_of(object);
  return its_own != nullptr && same(its_own, soname);
}

bool is_drivers(const Governed& governed, const void* address) {
  if (governed.is_nvml) return nvml_is_loaded() && (nvml_owns(address) || is_copy(kNvmlSoname, address));
  return driver_is_loaded() && (driver_owns(address) || is_copy(kDriverSoname, address));
}

// As if asked with a handle of the library that the caller's code lies in: its own dependencies.
void* ask_in_callers_scope(const Question& question) {
  bare::Object object;
  if (!bare::object_at(question.caller, object) || object.path[0] == 0) return nullptr;
  void* handle = open_library(object.path, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return nullptr;
  void* found = ask(question, handle);
  close_library(handle);
  return found;
}

// The first definition in an object loaded after the caller's, other than ours.
struct Next {
  void* found = nullptr;
  bool caller_precedes_us = false;  // then the real function, asked for the next, would find us
};

Next definition_after_caller(const Question& question) {
  struct Walk {
    const Question* question;
    bool passed;
    Next next;
  } walk{&question, false, {}};
  bare::each_object(
      [](const bare::Object& object, void* raw) {
        auto* at = static_cast<Walk*>(raw);
        if (!at->passed) {
          at->passed = bare::covers(object, at->question->caller);
        } else if (bare::covers(object, reinterpret_cast<const void*>(&real_dl))) {
          at->next.caller_precedes_us = true;
        } else {
          at->next.found = bare::symbol_in(object, at->question->name);
        }
        return at->next.found != nullptr;
      },
      &walk);
  return walk.next;
}

// Whether a search that the caller starts can reach the driver at all: it may be loaded for somebody else only
// (RTLD_LOCAL). Asked by a name that the driver alone defines.
bool driver_is_in_scope(const Governed& governed, const Question& question) {
  Question probe = question;
  probe.name = governed.is_nvml ? "nvmlInit_v2" : "cuInit";
  return is_drivers(governed, ask(probe, RTLD_NEXT)) || is_drivers(governed, ask_in_callers_scope(probe));
}

// True: `answer` is what the caller gets. False: let the real function answer him.
bool answer_next(const Governed& governed, const Question& question, void*& answer) {
  const Next next = definition_after_caller(question);
  if (next.found != nullptr && is_drivers(governed, next.found) && driver_is_in_scope(governed, question)) {
    answer = governed.hook;
    return true;
  }
  if (!next.caller_precedes_us) return false;
  answer = ask(question, RTLD_NEXT);  // next after us: for a caller before us, that is what he would have got
  return true;
}

bool answer_handle(const Governed& governed, const Question& question, void*& answer) {
  void* found = ask(question, question.handle);
  if (found == governed.hook) {  // the search began at the program, so it met us first: what lies behind us?
    found = ask(question, RTLD_NEXT);
    if (found == nullptr && question.handle == RTLD_DEFAULT) {
      found = ask_in_callers_scope(question);
      if (found == governed.hook) found = nullptr;
      if (found == nullptr) ask(question, RTLD_NEXT);  // again, for dlerror()
    }
  }
  answer = found != nullptr && is_drivers(governed, found) ? governed.hook : found;
  return true;
}

// Of a copy: what we do not govern must come from where our hooks lead, since the copy itself has seen none of the
// calls that they took.
bool answer_passing(const Question& question, void*& answer) {
  if (question.handle == RTLD_NEXT || question.handle == RTLD_DEFAULT || question.version != nullptr) return false;
  const bool is_nvml = question.name[0] == 'n';
  const char* const soname = is_nvml ? kNvmlSoname : kDriverSoname;
  if (!(is_nvml ? nvml_is_loaded() : driver_is_loaded())) return false;
  const void* const found = ask(question, question.handle);
  if (found == nullptr || (is_nvml ? nvml_owns(found) : driver_owns(found)) || !is_copy(soname, found)) return false;
  void* const drivers = open_library(soname, RTLD_LAZY | RTLD_NOLOAD);
  if (drivers == nullptr) return false;
  answer = ask(question, drivers);
  close_library(drivers);
  return answer != nullptr;
}

// Who wraps the lookup functions asks for the real ones by name, and by a version that no wrapper has: a profiler
// before us would look the driver up past us. Where he would have got libc's he gets ours.
bool answer_lookup(void* ours, const Question& question, void*& answer) {
  bare::Object libc;
  if (!bare::object_at(reinterpret_cast<const void*>(real_dl().dlsym), libc)) return false;
  if (question.handle == RTLD_NEXT) {
    const Next next = definition_after_caller(question);
    const bool others = next.found != nullptr && !next.caller_precedes_us && !bare::covers(libc, next.found);
    if (others && question.version == nullptr) return false;
  } else {
    answer = ask(question, question.handle);
    if (!bare::covers(libc, answer)) return true;
  }
  answer = ours;
  return true;
}

}  // namespace

// For dlsym_ARCH.S: the real function to jump to, or nullptr with *answer set.
extern "C" __attribute__((visibility("hidden"))) void* headgate_decide_dlsym(void* handle, const char* name,
                                                                             const char* version, const void* caller,
                                                                             void** answer) {
  const RealDl& real = real_dl();
  *answer = nullptr;
  void* go_on = version == nullptr ? reinterpret_cast<void*>(real.dlsym) : reinterpret_cast<void*>(real.dlvsym);
  if (go_on == nullptr || inside || name == nullptr) return go_on;
  const Question question{handle, name, version, caller};
  void* const lookup = same(name, "dlsym")    ? reinterpret_cast<void*>(&::dlsym)
                       : same(name, "dlvsym") ? reinterpret_cast<void*>(&::dlvsym)
                                              : nullptr;
  if (lookup != nullptr) {
    inside = true;
    const bool answered = answer_lookup(lookup, question, *answer);
    inside = false;
    return answered ? nullptr : go_on;
  }
  const bool could_be = (name[0] == 'c' && name[1] == 'u') || (name[0] == 'n' && name[1] == 'v');
  if (!could_be) return go_on;
  const Governed* governed = find_governed(name);
  inside = true;
  const bool answered = governed == nullptr   ? answer_passing(question, *answer)
                        : handle == RTLD_NEXT ? answer_next(*governed, question, *answer)
                                              : answer_handle(*governed, question, *answer);
  inside = false;
  return answered ? nullptr : go_on;
}

}  // namespace headgate::limiter
