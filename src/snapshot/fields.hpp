// The list of a snapshot struct's fields; writer, reader and schema are derived from it.
#pragma once

// Visits the first name, then scans itself again for the others: HEADGATE_RESCAN does that 64 times.
#define HEADGATE_VISIT(name, ...) \
  visit(#name, of.name);          \
  __VA_OPT__(HEADGATE_VISIT_NEXT HEADGATE_NO_ARGUMENTS(__VA_ARGS__))
#define HEADGATE_VISIT_NEXT() HEADGATE_VISIT
#define HEADGATE_NO_ARGUMENTS ()
#define HEADGATE_RESCAN(...) HEADGATE_RESCAN16(HEADGATE_RESCAN16(HEADGATE_RESCAN16(HEADGATE_RESCAN16(__VA_ARGS__))))
#define HEADGATE_RESCAN16(...) HEADGATE_RESCAN4(HEADGATE_RESCAN4(HEADGATE_RESCAN4(HEADGATE_RESCAN4(__VA_ARGS__))))
#define HEADGATE_RESCAN4(...) HEADGATE_RESCAN1(HEADGATE_RESCAN1(HEADGATE_RESCAN1(HEADGATE_RESCAN1(__VA_ARGS__))))
#define HEADGATE_RESCAN1(...) __VA_ARGS__

// Defines each_field(of, visit), which calls visit(name, value) for each field in output order, and name_of().
#define HEADGATE_FIELDS(Struct, ...)             \
  template <typename Visit>                      \
  void each_field(Struct& of, Visit&& visit) {   \
    HEADGATE_RESCAN(HEADGATE_VISIT(__VA_ARGS__)) \
  }                                              \
  constexpr const char* name_of(const Struct*) { return #Struct; }
