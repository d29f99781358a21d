#include "observe/observer.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "observe/scripted_nvml.hpp"

namespace headgate::observe {
namespace {

// What readiness and the age of figures rest on: a picture that is made anew is no word of the driver.
TEST(Observer, APictureWithoutTheDriverSaysSinceWhenAndNamesNobodyOnIt) {
  auto& script = *reinterpret_cast<Script* (*)()>(::dlsym(::dlopen(SCRIPTED_NVML, RTLD_NOW), "scripted_nvml"))();
  script = {};
  script.compute = {{{.pid = 41, .bytes = 1 << 20}}};
  EventLog events;
  ObserverSources sources;
  sources.nvml_library = SCRIPTED_NVML;
  Observer observer(std::move(sources), {}, events);
  ASSERT_TRUE(observer.start());
  const Picture with = observer.look();
  EXPECT_FALSE(with->node.nvml_released);
  EXPECT_EQ(with->processes.size(), 1u);
  EXPECT_LE(observer.driver_answered_ns(), with->taken_ns);
  script.answers = false;
  const std::uint64_t last_ns = observer.driver_answered_ns();
  const Picture gone = observer.look(), still_gone = observer.look();
  EXPECT_EQ(observer.driver_answered_ns(), last_ns);
  for (const Picture& picture : {gone, still_gone}) {
    EXPECT_TRUE(picture->node.nvml_released);
    EXPECT_LT(last_ns, picture->taken_ns) << "the picture is new, the driver's word is not";
    EXPECT_TRUE(picture->processes.empty()) << "who has ended meanwhile, nobody knows";
    EXPECT_EQ(picture->gpus.size(), 1u) << "what is known stays";
  }
  script.answers = true;
  const Picture back = observer.look();
  EXPECT_FALSE(back->node.nvml_released);
  EXPECT_GT(observer.driver_answered_ns(), still_gone->taken_ns);
}

}  // namespace
}  // namespace headgate::observe
