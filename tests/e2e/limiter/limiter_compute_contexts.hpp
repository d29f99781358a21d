// The patterns of limiter_compute that use several contexts; its head describes them. Each returns an exit status.
#pragma once

namespace headgate::e2e {

int green(int count);
int two_contexts(int rounds);
int wrong_context(int count);
int together(int count);
int contexts(int count, int rounds);

}  // namespace headgate::e2e
