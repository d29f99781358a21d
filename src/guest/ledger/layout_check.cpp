// Proves that layout.hpp stands alone.
#include "guest/ledger/layout.hpp"
