// Random operations on shared memory, compared with a reference model: the account must match at each step.
#include "limiter_sharing.hpp"

namespace headgate::e2e {
namespace {

// A reference model of which puppet holds what. Steps come from a seed; each ends with a query by a living process.
class Model {
 public:
  struct Object {
    std::uint64_t chunks = 0;
    std::map<int, int> references, mappings;  // per puppet
    std::vector<int> fds;                     // held by the test
    int maker = 0;
  };
  std::map<int, Object> objects;

  [[nodiscard]] static bool alive(const Object& object) {
    const auto some = [](const std::map<int, int>& counts) {
      return std::ranges::any_of(counts, [](const auto& entry) { return entry.second > 0; });
    };
    return some(object.references) || some(object.mappings) || !object.fds.empty();
  }
  [[nodiscard]] std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const auto& [name, object] : objects) sum += alive(object) ? object.chunks * kChunk : 0;
    return sum;
  }
};

class SharingAtRandom : public Sharing, public testing::WithParamInterface<int> {};

TEST_P(SharingAtRandom, MatchesTheModelAndTheNodeAtEveryStep) {
  std::mt19937 dice(static_cast<unsigned>(GetParam()));
  const auto roll = [&](int most) { return static_cast<int>(dice() % static_cast<unsigned>(most)); };
  std::map<int, Puppet*> living;
  for (int i = 0; i < 3; ++i) living[i] = &puppet();
  Model model;
  int names = 0, next_puppet = 3;
  bool left_behind = false;  // a maker died; its exports may be partly gone
  std::string story;
  for (int step = 0; step < 120; ++step) {
    auto who = std::next(living.begin(), roll(static_cast<int>(living.size())));
    Puppet& actor = *who->second;
    const int me = who->first;
    auto what = model.objects.empty() ? model.objects.end()
                                      : std::next(model.objects.begin(), roll(static_cast<int>(model.objects.size())));
    Model::Object* object = what == model.objects.end() ? nullptr : &what->second;
    const std::string name = object ? std::to_string(what->first) : "";
    const int choice = roll(100);
    const auto act = [&](const std::string& line) {
      story += std::to_string(me) + ": " + line + "\n";
      EXPECT_EQ(actor.tell(line), 0u) << story;
    };
    if (choice < 20 || !object) {
      Model::Object fresh;
      fresh.chunks = 1 + static_cast<std::uint64_t>(roll(4));
      fresh.maker = me;
      fresh.references[me] = 1;
      act("create " + std::to_string(++names) + " " + std::to_string(fresh.chunks));
      model.objects[names] = fresh;
    } else if (choice < 35 && object->references[me] > 0) {
      act("map " + name);
      ++object->mappings[me];
    } else if (choice < 45 && object->mappings[me] > 0) {
      act("unmap " + name);
      --object->mappings[me];
    } else if (choice < 50 && object->mappings[me] > 0) {
      act("retain " + name);
      ++object->references[me];
    } else if (choice < 65 && object->references[me] > 0) {
      act("release " + name);
      --object->references[me];
    } else if (choice < 75 && object->references[me] > 0) {
      act("export " + name);
      object->fds.push_back(actor.receive());
    } else if (choice < 85 && !object->fds.empty() && object->mappings[me] == 0 && object->references[me] == 0) {
      actor.send(object->fds.back());
      act("import " + name + " " + std::to_string(object->chunks));
      ++object->references[me];
    } else if (choice < 92 && !object->fds.empty()) {
      ::close(object->fds.back());
      object->fds.pop_back();
      story += "closed one of " + name + "\n";
    } else if (choice >= 96) {
      const bool killed = choice >= 98;
      story += std::to_string(me) + (killed ? " killed\n" : " leaves\n");
      if (killed) actor.die();
      else actor.leave();
      for (auto& [each, held] : model.objects) {
        held.references.erase(me);
        held.mappings.erase(me);
        left_behind = left_behind || (held.maker == me && Model::alive(held));
      }
      living.erase(who);
      living[next_puppet++] = &puppet();
    }
    const std::uint64_t real = truth();  // reading the truth makes the node look for dead processes
    for (auto& [each, watcher] : living) EXPECT_EQ(watcher->tell("info"), 0u);
    const Account books = account();
    ASSERT_EQ(real, model.bytes()) << story;
    ASSERT_GE(books.used, real) << story;
    if (!left_behind) {
      ASSERT_EQ(books.used, real) << story;
    }
    std::erase_if(model.objects, [](const auto& entry) { return !Model::alive(entry.second); });
    if (real == 0) left_behind = false;
  }
  for (auto& [name, object] : model.objects) {
    for (const int fd : object.fds) ::close(fd);
  }
  for (auto& [name, each] : living) {
    if (name != living.rbegin()->first) each->die();
  }
  Puppet& last = *living.rbegin()->second;
  EXPECT_EQ(last.tell("info"), 0u);
  std::uint64_t own = 0;
  for (const auto& [name, object] : model.objects) {
    const int me = living.rbegin()->first;
    const auto count = [&](const std::map<int, int>& counts) { return counts.contains(me) ? counts.at(me) : 0; };
    if (count(object.references) + count(object.mappings) > 0) own += object.chunks * kChunk;
  }
  EXPECT_EQ(truth(), own);
  EXPECT_GE(account().used, own);
}
INSTANTIATE_TEST_SUITE_P(Seeds, SharingAtRandom, testing::Range(1, 9));

}  // namespace
}  // namespace headgate::e2e
