#include "node/gpu_boards.hpp"

namespace headgate::node {

ShareMarks::ShareMarks(const ledger::PolicyPage& policy)
    : memory_("headgate-marks", policy.device_count * sizeof(ledger::GpuPage), SealedMemory::Theirs::to_write) {
  if (!memory_) return;
  for (std::uint32_t d = 0; d < policy.device_count; ++d)
    ledger::name_gpu_page(memory_.as<ledger::GpuPage>()[d], policy.devices[d].uuid);
}

GpuBoards::GpuBoards(const std::vector<std::string>& uuids) {
  for (const std::string& uuid : uuids) {
    Board& made = boards_.emplace_back();
    made.memory = SealedMemory("headgate-board", sizeof(ledger::GpuPage), SealedMemory::Theirs::to_read);
    if (!made.memory) continue;
    auto& page = *made.memory.as<ledger::GpuPage>();
    ledger::name_gpu_page(page, uuid.c_str());
    made.board = std::make_unique<GpuBoard>(page);
  }
}

int GpuBoards::descriptor(std::uint32_t gpu) const {
  return gpu < boards_.size() ? boards_[gpu].memory.descriptor() : -1;
}

}  // namespace headgate::node
