// A point before every store into a shared page where a process may be killed. Empty in the product. Crash tests build
// these sources with HEADGATE_LEDGER_STEPS and supply a step() that kills at a chosen step.
#pragma once

namespace headgate::ledger {

#if defined(HEADGATE_LEDGER_STEPS)
void step(const char* name);
#else
inline void step(const char*) {}
#endif

}  // namespace headgate::ledger
