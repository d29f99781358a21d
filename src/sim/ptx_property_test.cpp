// Kernels written as PTX are parsed back to the same description.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cstring>
#include <string>

#include "sim/message.hpp"
#include "sim/ptx.hpp"

namespace headgate::sim::ptx {
namespace {

struct Shape {
  const char* type;
  std::uint32_t bytes;
};
constexpr Shape kShapes[] = {{".u8", 1}, {".b16", 2}, {".s32", 4}, {".f32", 4}, {".u64", 8}, {".f64", 8}};

RC_GTEST_PROP(PtxProperty, EveryParameterIsAtItsCOffset, ()) {
  const auto chosen =
      *rc::gen::container<std::vector<std::size_t>>(rc::gen::inRange<std::size_t>(0, std::size(kShapes)));
  const auto counts =
      *rc::gen::container<std::vector<std::uint32_t>>(chosen.size(), rc::gen::inRange<std::uint32_t>(0, 9));
  std::string text = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(";
  std::uint32_t offset = 0;
  std::vector<Parameter> expected;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    const Shape& shape = kShapes[chosen[i]];
    const bool array = counts[i] > 0;
    const std::uint32_t size = shape.bytes * (array ? counts[i] : 1);
    offset = (offset + shape.bytes - 1) / shape.bytes * shape.bytes;
    text += message(i == 0 ? "" : ", ", ".param ", shape.type, " p", i, array ? message("[", counts[i], "]") : "");
    expected.push_back({.name = message("p", i),
                        .scalar = Scalar::opaque,
                        .offset_bytes = offset,
                        .size_bytes = size,
                        .alignment_bytes = shape.bytes});
    offset += size;
  }
  const auto module = parse(text + ")\n{ ret; }\n");
  RC_ASSERT(module.has_value());
  RC_ASSERT(module->entries[0].parameter_bytes == offset);
  RC_ASSERT(module->entries[0].parameters.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    Parameter read = module->entries[0].parameters[i];
    read.scalar = Scalar::opaque;
    RC_ASSERT(read == expected[i]);
  }
}

RC_GTEST_PROP(PtxProperty, MicrosecondsKeepTheirNanoseconds, ()) {
  const auto ns = *rc::gen::inRange<std::uint64_t>(0, kLongestKernelNs + 1);
  std::string decimals = std::to_string(1000 + ns % 1000).substr(1);
  const auto module = parse(message(".version 8.0\n.target sm_90\n.entry k() { .pragma \"headgate.sim.us ", ns / 1000,
                                    ".", decimals, "\"; ret; }"));
  RC_ASSERT(module.has_value());
  RC_ASSERT(duration_ns(module->entries[0], {}) == ns);
}

RC_GTEST_PROP(PtxProperty, TruncatedTextIsAnErrorOrAWholeModule, ()) {
  const std::string whole =
      ".version 8.0\n.target sm_90\n.global .u32 g[4] = {1,2,3,4};\n.entry k(.param .u64 a) .maxntid 32 { .pragma "
      "\"headgate.sim.wait param0\"; .shared .b8 s[16]; ret; }\n";
  const auto cut = *rc::gen::inRange<std::size_t>(0, whole.size() + 1);
  const auto module = parse(whole.substr(0, cut));
  if (!module) RC_ASSERT(module.error().message.starts_with("line "));
  else if (!module->entries.empty()) RC_ASSERT(module->entries[0].behaviour.wait_parameter == 0U);
}

}  // namespace
}  // namespace headgate::sim::ptx
