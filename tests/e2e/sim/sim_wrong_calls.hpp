// Calls that no driver accepts, and some that one tolerates: each answer a line.
#pragma once

namespace headgate::e2e {

int wrong_calls();

}  // namespace headgate::e2e
