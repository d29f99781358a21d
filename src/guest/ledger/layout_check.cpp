// Proves that layout.hpp compiles by itself.
#include "guest/ledger/layout.hpp"
