// How the engine's writes survive a kill -9 in their middle: what is about to change is saved first, and put back by
// whoever takes the lock next. A private engine (virtual time) needs none.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headgate::sim {

class Journal {
 public:
  virtual void save(const void* what, std::size_t bytes) = 0;
  // Everything saved so far is now the past.
  virtual void commit() = 0;

 protected:
  ~Journal() = default;
};

}  // namespace headgate::sim
