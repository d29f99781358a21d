// Makes calls that no driver accepts, and some that a driver tolerates; prints one line per result.
#pragma once

namespace headgate::e2e {

int wrong_calls();

}  // namespace headgate::e2e
