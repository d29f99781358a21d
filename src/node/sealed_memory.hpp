// Memory of ours that tenants get a descriptor of. They can neither shorten it, which would kill readers behind its
// end, nor lengthen it, which would fill memory. Memory that they are only to read cannot be mapped for writing.
#pragma once

#include <cstddef>

#include "base/unique_fd.hpp"

namespace headgate::node {

class SealedMemory {
 public:
  enum class Theirs { to_read, to_write };

  SealedMemory() = default;  // none
  // Zero-filled. `name`: as /proc shows it. Empty if the kernel gives none.
  SealedMemory(const char* name, std::size_t bytes, Theirs theirs);
  ~SealedMemory();
  SealedMemory(SealedMemory&& other) noexcept;
  SealedMemory& operator=(SealedMemory&& other) noexcept;

  explicit operator bool() const { return at_ != nullptr; }
  template <typename T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(at_);
  }
  // To hand out; -1: none. Before Linux 5.1, a holder that may reopen memory to read can write to it.
  [[nodiscard]] int descriptor() const { return theirs_ ? theirs_.get() : file_.get(); }

 private:
  UniqueFd file_, theirs_;
  void* at_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace headgate::node
