// Random operations of several processes, with deaths between any two, against a plain model of what each seat holds
// and has exported. (Deaths inside an operation: crash_test.cpp and models/ledger.pml.)
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "guest/ledger/test_page.hpp"

namespace headgate::ledger {
namespace {

constexpr std::uint64_t kMaxAtOnce = ~0ull >> 1;  // the most a slot holds: operations are signed 64-bit counts

constexpr std::uint32_t kDevices = 2;
constexpr std::uint32_t kProcesses = 5;

struct ModelSlot {
  SlotKind kind = SlotKind::free;
  std::uint32_t pid = 0;
  std::array<std::uint64_t, kDevices> held{};
  std::array<std::uint64_t, kDevices> exported{};
};

struct Model {
  std::vector<ModelSlot> slots;
  std::array<std::uint64_t, kDevices> peak{};

  std::uint64_t used(std::uint32_t device) const {
    std::uint64_t sum = 0;
    for (const ModelSlot& slot : slots) sum += slot.held[device];
    return sum;
  }
  void note_peaks() {
    for (std::uint32_t device = 0; device < kDevices; ++device) peak[device] = std::max(peak[device], used(device));
  }
  static void reap(ModelSlot& slot) {
    if (slot.kind != SlotKind::dead) return;
    slot.held = slot.exported;
    const bool kept = std::any_of(slot.held.begin(), slot.held.end(), [](std::uint64_t bytes) { return bytes != 0; });
    slot.kind = kept ? SlotKind::orphan : SlotKind::free;
  }
  std::uint32_t claim(std::uint32_t pid) {
    for (ModelSlot& slot : slots) {
      if (slot.kind != SlotKind::live || slot.pid != pid) continue;
      slot.kind = SlotKind::dead;
      reap(slot);
    }
    std::uint32_t index = 0;
    while (index < slots.size() && slots[index].kind != SlotKind::free) ++index;
    if (index == slots.size()) slots.emplace_back();
    slots[index] = {SlotKind::live, pid, {}, {}};
    return index;
  }
};

struct Step {
  std::uint32_t what;
  std::uint32_t process;
  std::uint32_t device;
  std::uint64_t bytes;
  std::uint64_t limit;
};

rc::Gen<Step> steps() {
  const auto bytes = rc::gen::weightedOneOf<std::uint64_t>(
      {{8, rc::gen::inRange<std::uint64_t>(0, 600)},
       {1, rc::gen::element<std::uint64_t>(~0ull, 1ull << 63, (1ull << 63) - 1, ~0ull - 100)}});
  return rc::gen::build<Step>(
      rc::gen::set(&Step::what,
                   rc::gen::weightedElement<std::uint32_t>(
                       {{2, 0}, {8, 1}, {5, 2}, {1, 3}, {2, 4}, {1, 5}, {1, 6}, {2, 7}, {2, 8}, {1, 9}, {2, 10}})),
      rc::gen::set(&Step::process, rc::gen::inRange<std::uint32_t>(0, kProcesses)),
      rc::gen::set(&Step::device, rc::gen::inRange<std::uint32_t>(0, kDevices)), rc::gen::set(&Step::bytes, bytes),
      rc::gen::set(&Step::limit, rc::gen::element<std::uint64_t>(1000, 1000, 500, kNoMemoryLimit)));
}

void take_step(const Step& step, UsagePage& page, Model& model, std::array<SlotRef, kProcesses>& seats) {
  SlotRef& seat = seats[step.process];
  const std::uint32_t pid = 100 + step.process;
  ModelSlot nobody;
  ModelSlot& mine = seat.slot < model.slots.size() ? model.slots[seat.slot] : nobody;
  const bool live = mine.kind == SlotKind::live && mine.pid == pid;
  std::uint64_t& held = mine.held[step.device];
  std::uint64_t& exported = mine.exported[step.device];
  const std::uint64_t used = model.used(step.device);
  switch (step.what) {
    case 0: {
      const std::uint32_t expected = model.claim(pid);
      RC_ASSERT(claim(page, made_up(pid), "model", seat) == ClaimResult::claimed);
      RC_ASSERT(seat.slot == expected);
      break;
    }
    case 1: {
      const std::uint64_t limit = std::min(step.limit, kMaxAtOnce);
      const bool fits = used <= limit && step.bytes <= limit - used;
      const Reservation got = reserve(page, step.device, seat, step.bytes, step.limit);
      RC_ASSERT(got.ok == (live && fits));
      if (got.ok) held += step.bytes, note_peak(page, step.device);
      RC_ASSERT(got.used_bytes == model.used(step.device));
      break;
    }
    case 2: {
      const std::uint64_t less = live ? std::min({step.bytes, held, kMaxAtOnce}) : 0;
      RC_ASSERT(give_back(page, step.device, seat, step.bytes) == less);
      held -= less;
      exported = std::min(exported, held);
      break;
    }
    case 3: {
      const std::uint64_t bytes = step.bytes % 2000;
      const bool fits = bytes <= kMaxAtOnce - used;
      RC_ASSERT(charge(page, step.device, seat, bytes) == (live && fits));
      if (live && fits) held += bytes;
      break;
    }
    case 4:
      add_exported(page, step.device, seat, step.bytes);
      if (live) exported += std::min(step.bytes, held - exported);
      break;
    case 5:
      sub_exported(page, step.device, seat, step.bytes);
      if (live) exported -= std::min(step.bytes, exported);
      break;
    case 6:
      release(page, seat);
      if (live) mine.kind = SlotKind::dead, Model::reap(mine);
      break;
    case 7:
      RC_ASSERT(mark_dead(page, seat) == live);
      if (live) mine.kind = SlotKind::dead;
      break;
    case 8:
      reap(page, seat.slot);
      Model::reap(mine);
      break;
    case 9:
      reap_dead(page);
      for (ModelSlot& slot : model.slots) Model::reap(slot);
      break;
    default: {
      const bool orphan = mine.kind == SlotKind::orphan && mine.pid == pid;
      release_orphan(page, seat);
      if (orphan) mine = {};
      break;
    }
  }
  model.note_peaks();
}

void compare_all(const UsagePage& page, const Model& model) {
  for (std::uint32_t device = 0; device < kDevices; ++device) {
    RC_ASSERT(used_bytes(page, device) == model.used(device));
    RC_ASSERT(peak_bytes(page, device) == model.peak[device]);
    std::uint64_t orphaned = 0;
    for (std::uint32_t i = 0; i < model.slots.size(); ++i) {
      RC_ASSERT(held_bytes(page, device, i) == model.slots[i].held[device]);
      if (model.slots[i].kind == SlotKind::orphan) orphaned += model.slots[i].held[device];
    }
    RC_ASSERT(orphaned_bytes(page, device) == orphaned);
  }
  std::uint32_t live = 0;
  for (std::uint32_t i = 0; i < model.slots.size(); ++i) {
    RC_ASSERT(view(page, i).kind == model.slots[i].kind);
    live += model.slots[i].kind == SlotKind::live;
  }
  RC_ASSERT(live_slots(page) == live);
}

RC_GTEST_PROP(LedgerProperty, OperationsAndDeathsMatchThePlainModel, ()) {
  const auto sequence = *rc::gen::scale(3.0, rc::gen::container<std::vector<Step>>(steps()));
  const SharedPage page = make_shared_page(kDevices);
  Model model;
  std::array<SlotRef, kProcesses> seats;
  for (const Step& step : sequence) {
    take_step(step, *page, model, seats);
    compare_all(*page, model);
  }
  for (const SlotRef& seat : seats) mark_dead(*page, seat);
  reap_dead(*page);  // including seats that died earlier
  for (std::uint32_t i = 0; i < model.slots.size(); ++i) release_orphan(*page, {i, view(*page, i).generation});
  for (std::uint32_t device = 0; device < kDevices; ++device) RC_ASSERT(used_bytes(*page, device) == 0u);
}

}  // namespace
}  // namespace headgate::ledger
