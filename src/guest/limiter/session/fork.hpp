// A forked child starts as if the limiter had just been loaded: it does not own the parent's slot, pages and threads.
#pragma once

namespace headgate::limiter {

// Resets everything that the limiter knows from the parent. Runs in the child before fork() returns. Only stores, no
// lock: the copied thread may have held any. Defined in entry/fork.cpp, which alone knows every folder.
void reset_after_fork();

// This folder's part: the membership, the slot and the pages.
void session_reset_after_fork();

}  // namespace headgate::limiter
