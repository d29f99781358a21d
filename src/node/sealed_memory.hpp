// Memory of ours that tenants get a descriptor of. Nobody can shorten it, which would end whoever looks behind its end,
// or make it longer, which would fill the machine; and where they are only to read it nobody can map it for writing.
#pragma once

#include <cstddef>

#include "base/unique_fd.hpp"

namespace headgate::node {

class SealedMemory {
 public:
  enum class Theirs { to_read, to_write };

  SealedMemory() = default;  // none
  // Zeros. `name`: as /proc shows it. None where the kernel makes none.
  SealedMemory(const char* name, std::size_t bytes, Theirs theirs);
  ~SealedMemory();
  SealedMemory(SealedMemory&& other) noexcept;
  SealedMemory& operator=(SealedMemory&& other) noexcept;

  explicit operator bool() const { return at_ != nullptr; }
  template <typename T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(at_);
  }
  // To hand out; -1: none. Before Linux 5.1 who may open it anew can write to what is only to be read.
  [[nodiscard]] int descriptor() const { return theirs_ ? theirs_.get() : file_.get(); }

 private:
  UniqueFd file_, theirs_;
  void* at_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace headgate::node
