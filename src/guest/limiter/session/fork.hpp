// A forked child starts as if the limiter had just been loaded: the parent's slot, pages and threads are not the
// child's.
#pragma once

namespace headgate::limiter {

// Resets all that the limiter knows of the parent. Runs in the child before fork() returns there. Only stores, no lock:
// the child may be the copy of a thread that held anything. Defined in entry/fork.cpp, which alone knows every folder.
void reset_after_fork();

// This folder's part of it: the membership, the slot and the pages.
void session_reset_after_fork();

}  // namespace headgate::limiter
