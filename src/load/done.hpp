// The value of functions that only succeed or fail, so that TRY has one to return.
#pragma once

namespace headgate::load {

struct Done {};

}  // namespace headgate::load
