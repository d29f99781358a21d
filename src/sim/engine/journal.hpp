// Lets the engine's writes survive a kill -9 at any instruction: old contents are saved before a change, and the next
// process that takes the lock restores them. A private engine (virtual time) needs no journal.
#pragma once

#include <cstddef>

namespace headgate::sim {

class Journal {
 public:
  virtual void save(const void* what, std::size_t bytes) = 0;
  // Makes everything saved so far permanent.
  virtual void commit() = 0;

 protected:
  ~Journal() = default;
};

}  // namespace headgate::sim
