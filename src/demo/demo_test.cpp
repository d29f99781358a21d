#include "demo/demo.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "cli/parse.hpp"

namespace headgate::demo {
namespace {

Result<cli::Parsed> demo_words(std::vector<const char*> words) {
  words.insert(words.begin(), "headgate");
  return cli::parse({demo_command(), bench_command()}, static_cast<int>(words.size()), words.data());
}

TEST(DemoCommand, HelpAndManualNameItsOptions) {
  std::ifstream in(HEADGATE_MANUAL);
  std::string page((std::istreambuf_iterator<char>(in)), {});
  std::erase(page, '\\');
  const auto help = demo_words({"demo", "--help"});
  ASSERT_TRUE(help && help->help);
  for (const char* own : {"--seconds", "--once"}) {
    EXPECT_NE(help->help->find(own), std::string::npos) << own;
    EXPECT_NE(page.find(own), std::string::npos) << own;
  }
  EXPECT_NE(help->help->find("12 to 120"), std::string::npos);
  for (const char* command : {"demo", "bench"}) EXPECT_NE(page.find(command), std::string::npos) << command;
}

TEST(DemoCommand, RefusesALengthOutsideItsRange) {
  EXPECT_TRUE(demo_words({"demo", "--seconds=12", "--once"}));
  for (const char* seconds : {"--seconds=11", "--seconds=121", "--seconds=x", "--seconds=-12"})
    EXPECT_EQ(demo_words({"demo", seconds}).error().hint, "it accepts --seconds=N, N from 12 to 120") << seconds;
  EXPECT_EQ(demo_words({"demo", "--second"}).error().code, ErrorCode::usage);
  EXPECT_EQ(demo_words({"bench", "x"}).error().code, ErrorCode::usage);
}

}  // namespace
}  // namespace headgate::demo
