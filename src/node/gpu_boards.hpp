// The boards of a node's GPUs (gpu_board.hpp) in memory that tenants can read, and the pages that tenants mark.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "guest/ledger/layout.hpp"
#include "node/gpu_board.hpp"
#include "node/sealed_memory.hpp"

namespace headgate::node {

// A share's own pages, one for each of its devices. Its tenants may write anything there.
class ShareMarks {
 public:
  ShareMarks() = default;  // none
  explicit ShareMarks(const ledger::PolicyPage& policy);
  explicit operator bool() const { return static_cast<bool>(memory_); }
  [[nodiscard]] const ledger::GpuPage& of(std::uint32_t device) const { return memory_.as<ledger::GpuPage>()[device]; }
  [[nodiscard]] int descriptor() const { return memory_.descriptor(); }  // to write; -1: none

 private:
  SealedMemory memory_;
};

// Not thread-safe.
class GpuBoards {
 public:
  // A GPU has no board if the kernel gives no memory for it.
  explicit GpuBoards(const std::vector<std::string>& uuids);
  [[nodiscard]] GpuBoard* of(std::uint32_t gpu) { return gpu < boards_.size() ? boards_[gpu].board.get() : nullptr; }
  [[nodiscard]] int descriptor(std::uint32_t gpu) const;  // to read; -1: none

 private:
  struct Board {
    SealedMemory memory;
    std::unique_ptr<GpuBoard> board;
  };
  std::vector<Board> boards_;
};

}  // namespace headgate::node
