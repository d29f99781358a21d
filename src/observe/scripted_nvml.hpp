// What the scripted NVML answers, one row for each question of a kind; the last row is answered ever after.
#pragma once

#include <cstdint>
#include <vector>

namespace headgate::observe {

struct ScriptedRow {
  unsigned pid;
  std::uint64_t bytes;  // ~0: not told
};
struct ScriptedEnd {
  unsigned pid;
  std::uint64_t peak_bytes;
  bool running;
};
struct Script {
  std::vector<std::vector<ScriptedRow>> compute{{}};
  std::vector<ScriptedRow> mps;
  std::vector<std::uint64_t> used_bytes{0};
  bool accounting = false;
  std::vector<ScriptedEnd> accounted;
  std::size_t lists_asked = 0, memory_asked = 0;
};
inline constexpr std::uint64_t kScriptedTotal = 1ull << 36;

}  // namespace headgate::observe
