#include "mps/server_log.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "mps/test_mps.hpp"

namespace headgate::mps {
namespace {

using Clients = std::set<pid_t>;

class MpsServerLog : public ::testing::Test {
 protected:
  MpsServerLog() { std::filesystem::create_directories(directory()); }
  [[nodiscard]] std::string directory() const { return folder_.base() + "/log"; }
  void write(const std::string& text) const { std::ofstream(directory() + "/server.log", std::ios::app) << text; }

  const MpsFolder folder_;
};

// In the words of driver 535, with the beginning of each line as it writes it.
TEST_F(MpsServerLog, NamesTheClientsOfAFault) {
  ServerLog log(directory());
  EXPECT_EQ(log.faults(), std::nullopt) << "no server has written yet";
  write("[2026-11-27 08:00:01.000 Server  4428] Status of client {4711, 1} is ACTIVE\n");
  EXPECT_EQ(log.faults(), std::nullopt);
  write(
      "[2026-11-27 08:00:02.000 Server  4428] Client process 4711 encountered a fatal GPU error.\n"
      "[2026-11-27 08:00:02.000 Server  4428] Server is handling a fatal GPU error.\n"
      "[2026-11-27 08:00:02.000 Server  4428] Status of client {4712, 1} is INACTIVE\n"
      "[2026-11-27 08:00:02.000 Server  4428] The following devices will be reset:\n"
      "[2026-11-27 08:00:02.000 Server  4428] 3\n"
      "[2026-11-27 08:00:02.000 Server  4428] The following clients have a sticky error set:\n"
      "[2026-11-27 08:00:02.000 Server  4428] 4713\n");
  EXPECT_EQ(log.faults(), (Clients{4711, 4712, 4713}));
  EXPECT_EQ(log.faults(), std::nullopt) << "each is told once";
}

TEST_F(MpsServerLog, ReadsWordsOfLaterReleasesAndLinesInPieces) {
  ServerLog log(directory());
  write("Server is handling a fatal GPU err");
  EXPECT_EQ(log.faults(), std::nullopt);
  write("or.\nStatus of client {PID: 4711, Context ID: 1} is INACTIVE\n");
  EXPECT_EQ(log.faults(), Clients{4711});
}

TEST_F(MpsServerLog, AClientThatLeavesIsNoFault) {
  ServerLog log(directory());
  write("Receive command failed, assuming client exit\nStatus of client {4711, 1} is INACTIVE\n12\n");
  EXPECT_EQ(log.faults(), std::nullopt);
}

// The server knows no PID of a client in another PID namespace.
TEST_F(MpsServerLog, ClientsWithoutAPidAreNotNamed) {
  ServerLog log(directory());
  write(
      "Server is handling a fatal GPU error.\nStatus of client {0, 1} is INACTIVE\n"
      "Status of client {99999999999, 1} is INACTIVE\nStatus of client {} is INACTIVE\n");
  EXPECT_EQ(log.faults(), Clients{});
}

TEST_F(MpsServerLog, WhatWasThereBeforeIsSkipped) {
  write("Server is handling a fatal GPU error.\n");
  ServerLog log(directory());
  log.skip();
  EXPECT_EQ(log.faults(), std::nullopt);
  std::filesystem::remove(directory() + "/server.log");
  write("Client process 12 encountered a fatal GPU error.\n");
  EXPECT_EQ(log.faults(), Clients{12}) << "a log that was made again is read from its beginning";
}

TEST_F(MpsServerLog, AFloodIsReadFromItsEnd) {
  ServerLog log(directory());
  write("Server is handling a fatal GPU error.\n" + std::string(1 << 20, 'x') + "\n");
  EXPECT_EQ(log.faults(), std::nullopt) << "it is more than is read at once";
  write(std::string(1 << 20, '\n') + "Client process 12 encountered a fatal GPU error.\n");
  EXPECT_EQ(log.faults(), Clients{12});
}

TEST_F(MpsServerLog, NoLinkAndNoPipeIsFollowed) {
  std::ofstream(folder_.base() + "/other") << "Server is handling a fatal GPU error.\n";
  std::filesystem::create_symlink(folder_.base() + "/other", directory() + "/server.log");
  ServerLog log(directory());
  EXPECT_EQ(log.faults(), std::nullopt);
  std::filesystem::remove(directory() + "/server.log");
  ASSERT_EQ(::mkfifo((directory() + "/server.log").c_str(), 0600), 0);
  EXPECT_EQ(log.faults(), std::nullopt);
}

}  // namespace
}  // namespace headgate::mps
