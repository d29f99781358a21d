// libheadgate-path.so in real processes.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "sim_program.hpp"

namespace headgate::e2e {
namespace {

const std::string kPreload = "LD_PRELOAD=" PATH_LIBRARY;

struct Ended {
  int status;
  std::string out, err;
};

// Runs a command with these variables and no others.
Ended run(std::vector<std::string> variables, const std::vector<std::string>& command) {
  std::vector<std::string> words = {"/usr/bin/env", "-i"};
  words.insert(words.end(), variables.begin(), variables.end());
  words.insert(words.end(), command.begin(), command.end());
  Program program(words, {});
  program.close_stdin();
  Ended ended{};
  for (std::string line; !(line = program.line()).empty();) ended.out += line + "\n";
  ended.status = program.wait();
  ended.err = program.errors();
  return ended;
}

// bash replaces getenv() and setenv().
TEST(PathInjection, ProgramsAndTheirChildrenFindAddedEntries) {
  const Ended ended = run({kPreload, "PATH=/usr/bin:/bin", "HEADGATE_PREPEND_PATH=/early", "TF_PREPEND_PATH=/tf-early",
                           "HEADGATE_APPEND_PATH=/late:/bin:", "TF_PATH=/tf-late"},
                          {"/bin/bash", "-c", "echo $PATH; sh -c 'echo $PATH'; exec bash -c 'echo $PATH'"});
  const std::string path = "/early:/tf-early:/usr/bin:/bin:/late:/tf-late\n";
  EXPECT_EQ(ended.out, path + path + path) << "of the program, a child, and itself after another exec";
  EXPECT_EQ(ended.err, "");
  EXPECT_EQ(ended.status, 0);
}

TEST(PathInjection, TheLoadersListsApplyToChildren) {
  const Ended ended =
      run({kPreload, "PATH=/usr/bin:/bin", "HEADGATE_APPEND_LD_LIBRARY_PATH=/late", "TF_PREPEND_LD_LIBRARY_PATH=/tf",
           "HEADGATE_PREPEND_LD_PRELOAD=/none/headgate.so", "TF_LD_PRELOAD=/none/tf.so"},
          {"/bin/bash", "-c", "echo $LD_LIBRARY_PATH; echo $LD_PRELOAD; sh -c :"});
  EXPECT_EQ(ended.out, "/tf:/late\n/none/headgate.so:" PATH_LIBRARY ":/none/tf.so\n");
  for (const char* library : {"'/none/headgate.so' from LD_PRELOAD", "'/none/tf.so' from LD_PRELOAD"})
    EXPECT_NE(ended.err.find(library), std::string::npos) << "the child's loader looked for it: " << ended.err;
  EXPECT_EQ(std::ranges::count(ended.err, '\n'), 2) << "the program's own did not: " << ended.err;
}

TEST(PathInjection, WithoutAdditionsIsSilentAndUnchanged) {
  const std::vector<std::string> variables = {
      kPreload,          "PATH=/bin::/usr/bin:", "A=b", "HEADGATE_APPEND_PATH=:", "HEADGATE_PREPEND_PATH=/bin",
      "TF_LD_PRELOAD= :"};
  std::string same;
  for (const auto& each : variables) same += each + "\n";
  const Ended ended = run(variables, {"/usr/bin/env"});
  EXPECT_EQ(ended.out, same);
  EXPECT_EQ(ended.err, "");
}

TEST(PathInjection, FindsSystemProgramsWithoutAPath) {
  const Ended ended = run({kPreload, "HEADGATE_APPEND_PATH=/late"}, {"/bin/sh", "-c", "echo $PATH; env > /dev/null"});
  EXPECT_EQ(ended.out, "/bin:/usr/bin:/late\n");
  EXPECT_EQ(ended.status, 0) << ended.err;
}

TEST(PathInjection, AnEntryThatIsTooLongForTheKernelIsSkipped) {
  // The longest allowed value: with one more byte the program could not start anything.
  const std::string longest = "PATH=/bin:/" + std::string(131'072 - 12, 'x');
  const std::vector<std::string> command = {"/bin/sh", "-c", "echo ${#PATH}; sh -c 'echo started'"};
  const Ended full = run({kPreload, longest, "HEADGATE_APPEND_PATH=/late"}, command);
  EXPECT_EQ(full.out, std::to_string(longest.size() - 5) + "\nstarted\n") << full.err;
  const Ended room = run({kPreload, longest.substr(0, longest.size() - 6), "HEADGATE_APPEND_PATH=/late"}, command);
  EXPECT_EQ(room.out, std::to_string(longest.size() - 5) + "\nstarted\n") << room.err;
  const Ended most = run({kPreload, "PATH=/bin", "HEADGATE_APPEND_PATH=/" + std::string(8'192, 'x')}, command);
  EXPECT_EQ(most.out, "4\nstarted\n") << "no addition is that long: " << most.err;
}

TEST(PathInjection, AProgramWithoutAnyEnvironmentWorks) {
  EXPECT_EQ(run({"HEADGATE_APPEND_PATH=/late"}, {PATH_PROBE, PATH_LIBRARY, "null"}).out, "secure 0, PATH unset\n");
}

TEST(PathInjection, VariablesAreIgnoredWithRaisedPrivileges) {
  const std::vector<std::string> variables = {"PATH=/bin", "HEADGATE_APPEND_PATH=/late"};
  EXPECT_EQ(run(variables, {PATH_PROBE, PATH_LIBRARY}).out, "secure 0, PATH /bin:/late\n");
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a set-user-ID program of another user's";
  const Directory directory;
  const std::string probe = directory.path() + "/probe", library = directory.path() + "/libheadgate-path.so";
  std::filesystem::copy_file(PATH_PROBE, probe);
  std::filesystem::copy_file(PATH_LIBRARY, library);
  ASSERT_EQ(::chmod(directory.path().c_str(), 0711), 0);
  ASSERT_EQ(::chown(probe.c_str(), 65534, 65534), 0);
  ASSERT_EQ(::chmod(probe.c_str(), 06755), 0);
  ASSERT_EQ(::chmod(library.c_str(), 0755), 0);
  const Ended ended = run(variables, {probe, library});
  if (ended.out.starts_with("secure 0")) GTEST_SKIP() << "temporary files lie where no program may raise privileges";
  EXPECT_EQ(ended.out, "secure 1, PATH /bin\n") << ended.err;
}

}  // namespace
}  // namespace headgate::e2e
