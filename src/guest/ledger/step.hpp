// Where a process may be killed: before every store into a shared page. Nothing in the product; the crash tests build
// these same sources with HEADGATE_LEDGER_STEPS and supply step(), which kills at the step that the test chose.
#pragma once

namespace headgate::ledger {

#if defined(HEADGATE_LEDGER_STEPS)
void step(const char* name);
#else
inline void step(const char*) {}
#endif

}  // namespace headgate::ledger
