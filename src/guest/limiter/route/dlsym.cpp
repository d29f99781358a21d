// dlsym and dlvsym: a caller that looks up a governed function gets our hook exactly where it would have got the
// driver's function. The exported entry points are assembly (dlsym_ARCH.S): calls we do not answer leave by a tail
// jump, because the real functions inspect their caller.
#include <dlfcn.h>

#include "guest/bare/elf.hpp"
#include "guest/limiter/route/driver.hpp"
#include "guest/limiter/route/governed.hpp"
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

// Returns whether the address is in a copy of the driver's library under another file name. To the dynamic linker that
// is another library, but its SONAME is the same.
bool is_copy(const char* soname, const void* address) {
  bare::Object object;
  if (address == nullptr || !bare::object_at(address, object)) return false;
  const char* const its_own = bare::soname_of(object);
  return its_own != nullptr && bare::same_text(its_own, soname);
}

bool is_drivers(const Governed& governed, const void* address) {
  if (governed.is_nvml) return nvml_is_loaded() && (nvml_owns(address) || is_copy(kNvmlSoname, address));
  return driver_is_loaded() && (driver_owns(address) || is_copy(kDriverSoname, address));
}

// Asks with a handle of the library that contains the caller's code, so in the scope of its dependencies.
void* ask_in_callers_scope(const Question& question) {
  bare::Object object;
  if (!bare::object_at(question.caller, object) || object.path[0] == 0) return nullptr;
  void* handle = open_library(object.path, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return nullptr;
  void* found = ask(question, handle);
  close_library(handle);
  return found;
}

// The first definition in an object loaded after the caller's, except ours.
struct Next {
  void* found = nullptr;
  bool caller_precedes_us = false;  // then the real function's RTLD_NEXT would find us
};

Next definition_after_caller(const Question& question) {
  Next next;
  bool passed = false;
  bare::each_object([&](const bare::Object& object) {
    if (!passed) passed = bare::covers(object, question.caller);
    else if (bare::covers(object, reinterpret_cast<const void*>(&real_dl))) next.caller_precedes_us = true;
    else next.found = bare::symbol_in(object, question.name);
    return next.found != nullptr;
  });
  return next;
}

// Returns whether a search by the caller can reach the driver at all: it may be loaded RTLD_LOCAL for another object.
// Probes with a name that only the driver defines.
bool driver_is_in_scope(const Governed& governed, const Question& question) {
  Question probe = question;
  probe.name = governed.is_nvml ? "nvmlInit_v2" : "cuInit";
  return is_drivers(governed, ask(probe, RTLD_NEXT)) || is_drivers(governed, ask_in_callers_scope(probe));
}

// Returns true if `answer` is the result; false if the real function should answer.
bool answer_next(const Governed& governed, const Question& question, void*& answer) {
  const Next next = definition_after_caller(question);
  if (next.found != nullptr && is_drivers(governed, next.found) && driver_is_in_scope(governed, question)) {
    answer = governed.hook;
    return true;
  }
  if (!next.caller_precedes_us) return false;
  answer = ask(question, RTLD_NEXT);  // next after us: what a caller before us would have got
  return true;
}

bool answer_handle(const Governed& governed, const Question& question, void*& answer) {
  void* found = ask(question, question.handle);
  if (found == governed.hook) {  // the search started at the program and met us first: look behind us
    found = ask(question, RTLD_NEXT);
    if (found == nullptr && question.handle == RTLD_DEFAULT) {
      found = ask_in_callers_scope(question);
      if (found == governed.hook) found = nullptr;
      if (found == nullptr) ask(question, RTLD_NEXT);  // again, to set dlerror()
    }
  }
  answer = found != nullptr && is_drivers(governed, found) ? governed.hook : found;
  return true;
}

// For a copy of the driver: an ungoverned function must come from the library that our hooks lead to. The copy has not
// seen the calls that they handled.
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

// A wrapper of the lookup functions asks for the real ones by name, and by a version that no wrapper has: a profiler
// loaded before us would look up the driver past us. Where it would have got libc's function it gets ours.
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

// Called by dlsym_ARCH.S. Returns the real function to jump to, or nullptr with *answer set.
extern "C" __attribute__((visibility("hidden"))) void* headgate_decide_dlsym(void* handle, const char* name,
                                                                             const char* version, const void* caller,
                                                                             void** answer) {
  const RealDl& real = real_dl();
  *answer = nullptr;
  void* go_on = version == nullptr ? reinterpret_cast<void*>(real.dlsym) : reinterpret_cast<void*>(real.dlvsym);
  if (go_on == nullptr || inside || name == nullptr) return go_on;
  const Question question{handle, name, version, caller};
  void* const lookup = bare::same_text(name, "dlsym")    ? reinterpret_cast<void*>(&::dlsym)
                       : bare::same_text(name, "dlvsym") ? reinterpret_cast<void*>(&::dlvsym)
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
