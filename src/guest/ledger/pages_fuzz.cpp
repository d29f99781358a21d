// Corrupts two valid pages by the input. If check_pages() still accepts them, makes every call that follows their
// values, with more corruption between the calls. Wrong figures are allowed, nothing else.
//
// Input: one byte for the number of patches before the check, the patches, then operations until the bytes end.
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "guest/ledger/account.hpp"
#include "guest/ledger/closing.hpp"
#include "guest/ledger/draining.hpp"
#include "guest/ledger/pages.hpp"
#include "guest/ledger/slot.hpp"
#include "guest/ledger/test_orphans.hpp"

namespace headgate::ledger {
namespace {

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  bool empty() const { return at_ >= size_; }
  template <typename T>
  T take() {
    T out{};
    for (std::size_t i = 0; i < sizeof out && at_ < size_; ++i) out |= static_cast<T>(T{data_[at_++]} << 8 * i);
    return out;
  }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
  std::size_t at_ = 0;
};

void must(bool holds) {
  if (!holds) std::abort();
}

// On the heap, so that AddressSanitizer detects an access past either page.
struct Pages {
  Pages() : policy(new PolicyPage{}), usage(new UsagePage{}) {}
  void make_sound() {
    std::memset(static_cast<void*>(policy), 0, sizeof(PolicyPage));
    std::memset(static_cast<void*>(usage), 0, sizeof(UsagePage));
    std::strcpy(policy->share, "fuzz");
    policy->header = {kPolicyMagic, kVersion, sizeof(PolicyPage)};
    usage->header = {kUsageMagic, kVersion, sizeof(UsagePage)};
    policy->device_count = usage->device_count = 2;
    policy->level = Level::hook;
    policy->generation = usage->generation = 1;
    usage->slot_count = kMaxSlots;
    for (std::uint32_t i = 0; i < 2; ++i) {
      std::strcpy(policy->devices[i].uuid, i == 0 ? "GPU-0" : "GPU-1");
      policy->devices[i].memory_limit_bytes = 1 << 20;
      policy->devices[i].compute_ceiling_ppm = kWholeGpu;
      policy->devices[i].weight = 100;
      policy->devices[i].priority_class = 1;
    }
  }
  ~Pages() {
    delete policy;
    delete usage;
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  PolicyPage* policy;
  UsagePage* usage;
};

// Patches any place, or one of the places that code follows.
void patch(Pages& pages, Input& in) {
  const std::uint8_t where = in.take<std::uint8_t>();
  auto* policy = reinterpret_cast<std::uint8_t*>(pages.policy);
  auto* usage = reinterpret_cast<std::uint8_t*>(pages.usage);
  std::uint8_t* at = nullptr;
  std::size_t room = 8;
  switch (where % 6) {
    case 0: at = policy + in.take<std::uint16_t>() % sizeof(PolicyPage); break;
    case 1: at = usage + in.take<std::uint8_t>() % offsetof(UsagePage, memory); break;
    case 2: at = reinterpret_cast<std::uint8_t*>(pages.usage->memory) + in.take<std::uint8_t>() % 32 * 8; break;
    case 3:
      at = reinterpret_cast<std::uint8_t*>(&pages.usage->slots[in.take<std::uint8_t>() % 4]);
      at += in.take<std::uint8_t>() % 32;
      break;
    case 4: {
      Slot& slot = pages.usage->slots[in.take<std::uint8_t>() % 4];
      at = reinterpret_cast<std::uint8_t*>(&slot.devices[where / 6 % 2]) + in.take<std::uint8_t>() % 9 * 8;
      break;
    }
    default: at = usage + in.take<std::uint32_t>() % sizeof(UsagePage); break;
  }
  const std::uint8_t* end = where % 6 == 0 ? policy + sizeof(PolicyPage) : usage + sizeof(UsagePage);
  if (room > static_cast<std::size_t>(end - at)) room = static_cast<std::size_t>(end - at);
  // A narrow value leaves its neighbours unchanged.
  if ((where & 0x80) != 0) room = 1;
  const std::uint64_t value = (where & 0x80) != 0 ? in.take<std::uint8_t>() : in.take<std::uint64_t>();
  std::memcpy(at, &value, room);
}

void look(const Pages& pages) {
  const ShareGrant grant = grant_of(*pages.policy);
  for (std::uint32_t i = 0; i < kMaxDevices; ++i) {
    must(find_device(*pages.policy, i < grant.device_count ? grant.devices[i].uuid : "none") <= kMaxDevices);
    used_bytes(*pages.usage, i);
    peak_bytes(*pages.usage, i);
    orphaned_bytes(*pages.usage, i);
    draining_bytes(*pages.usage, i);
    torn_on(*pages.usage, i);
  }
  for (std::uint32_t i = 0; i < 8; ++i) {
    const SlotView seat = view(*pages.usage, i);
    must(seat.kind <= SlotKind::orphan);
    must(std::memchr(seat.command, 0, sizeof seat.command) != nullptr);
    for (std::uint32_t device = 0; device < 3; ++device) held_bytes(*pages.usage, device, i);
  }
  must(live_slots(*pages.usage) <= kMaxSlots);
}

void say(const PageFault& fault, std::size_t size) {
  char text[300];
  const std::size_t length = explain(fault, text, size);
  must(size == 0 ? length == 0 : length < size && text[length] == '\0');
  for (std::size_t i = 0; i < length; ++i) must(text[i] >= ' ' && text[i] < 127);
}

void operate(Pages& pages, Input& in, SlotRef (&seats)[4]) {
  static const std::uint32_t here = own_identity().pidns_inode;
  const std::uint8_t what = in.take<std::uint8_t>();
  SlotRef& seat = seats[what >> 6];
  const std::uint32_t device = (what >> 4 & 3) == 3 ? kMaxDevices + 3 : what >> 4 & 3;
  UsagePage& usage = *pages.usage;
  switch (what & 15) {
    case 0:
    case 1: {
      const std::uint64_t bytes = in.take<std::uint32_t>();
      const std::uint64_t limit = what & 1 ? kNoMemoryLimit : 1 << 20;
      const Reservation got = reserve(usage, device, seat, bytes, limit);
      must(!got.ok || got.used_bytes <= limit);
      break;
    }
    case 2: {
      const std::uint64_t bytes = in.take<std::uint64_t>();
      must(give_back(usage, device, seat, bytes) <= bytes);
      break;
    }
    case 3: charge(usage, device, seat, in.take<std::uint64_t>()); break;
    case 4: claim(usage, Identity{1u + (what >> 6), (what & 0x10) != 0 ? 7u : here, 1}, "fuzz", seat); break;
    case 5: release(usage, seat); break;
    case 6: mark_dead(usage, {in.take<std::uint8_t>(), seat.generation}); break;
    case 7: reap(usage, in.take<std::uint16_t>()); break;
    case 8: reap_dead(usage, (what & 0x10) != 0 ? Remains::draining : Remains::none); break;
    case 9: release_orphan(usage, seat); break;
    case 10: add_exported(usage, device, seat, in.take<std::uint64_t>()); break;
    case 11: sub_exported(usage, device, seat, in.take<std::uint64_t>()); break;
    case 12: {
      DeviceGrant next;
      std::strcpy(next.uuid, "GPU-0");
      next.memory_limit_bytes = in.take<std::uint32_t>();
      next.compute_ceiling_ppm = in.take<std::uint32_t>();
      next.compute_burst_ppm = in.take<std::uint32_t>();
      say(set_limits(*pages.policy, device, next), 300);
      break;
    }
    case 13: close_if_empty(usage); break;
    case 14: note_refusal(usage, device, seat, {.asked_bytes = in.take<std::uint64_t>()}); break;
    default: patch(pages, in); break;
  }
}

}  // namespace
}  // namespace headgate::ledger

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace headgate::ledger;
  Input in(data, size);
  static Pages pages;
  pages.make_sound();
  SlotRef seats[4];
  for (int patches = in.take<std::uint8_t>() % 16; patches > 0 && !in.empty(); --patches) patch(pages, in);
  const PageFault fault = check_pages(pages.policy, sizeof(PolicyPage), pages.usage, sizeof(UsagePage));
  say(fault, in.take<std::uint8_t>());
  if (fault) return 0;
  must(!check_grant(grant_of(*pages.policy)));
  for (int i = 0; i < 100 && !in.empty(); ++i) operate(pages, in, seats);
  look(pages);
  return 0;
}
