// What a function that only succeeds returns, so that TRY has a value to take.
#pragma once

namespace headgate::load {

struct Done {};

}  // namespace headgate::load
