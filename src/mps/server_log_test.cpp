#include "mps/server_log.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "mps/test_mps.hpp"

namespace headgate::mps {
namespace {

using Faults = std::map<pid_t, std::set<pid_t>>;

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
  EXPECT_EQ(log.news().faults, Faults{}) << "no server has written yet";
  write("[2026-11-27 08:00:01.000 Server  4428] Status of client {4711, 1} is ACTIVE\n");
  EXPECT_EQ(log.news().faults, Faults{});
  write(
      "[2026-11-27 08:00:02.000 Server  4428] Client process 4711 encountered a fatal GPU error.\n"
      "[2026-11-27 08:00:02.000 Server  4428] Server is handling a fatal GPU error.\n"
      "[2026-11-27 08:00:02.000 Server  4428] Status of client {4712, 1} is INACTIVE\n"
      "[2026-11-27 08:00:02.000 Server  4428] The following devices will be reset:\n"
      "[2026-11-27 08:00:02.000 Server  4428] 3\n"
      "[2026-11-27 08:00:02.000 Server  4428] The following clients have a sticky error set:\n"
      "[2026-11-27 08:00:02.000 Server  4428] 4713\n");
  EXPECT_EQ(log.news().faults, (Faults{{4428, {4711, 4712, 4713}}}));
  EXPECT_EQ(log.news().faults, Faults{}) << "each is told once";
}

TEST_F(MpsServerLog, ReadsWordsOfLaterReleasesAndLinesInPieces) {
  ServerLog log(directory());
  write("Server is handling a fatal GPU err");
  EXPECT_EQ(log.news().faults, Faults{});
  write("or.\nStatus of client {PID: 4711, Context ID: 1} is INACTIVE\n");
  EXPECT_EQ(log.news().faults, (Faults{{0, {4711}}}));
}

// Two servers may write at once: one that another follows, and that one.
TEST_F(MpsServerLog, KeepsServersApart) {
  ServerLog log(directory());
  write(
      "[2026-11-27 08:00:02.000 Server  4428] Client process 4711 encountered a fatal GPU error.\n"
      "[2026-11-27 08:00:02.000 Server  5000] Status of client {4800, 1} is INACTIVE\n"
      "[2026-11-27 08:00:02.000 Server  4428] The following clients have a sticky error set:\n"
      "[2026-11-27 08:00:02.000 Server  5000] 4801\n"
      "[2026-11-27 08:00:02.000 Server  4428] 4712\n");
  EXPECT_EQ(log.news().faults, (Faults{{4428, {4711, 4712}}}));
}

TEST_F(MpsServerLog, ClientsThatComeAndGoAreNothingUnusual) {
  ServerLog log(directory());
  for (const char* text :
       {"Initializing server process", "Creating server context on device 0 (NVIDIA H200)", "Server Priority set to 0",
        "Server has started", "Received new client request", "Worker created", "Creating worker thread",
        "Status of client {4711, 1} is ACTIVE", "Client disconnected. Number of active client contexts is 0.",
        "Client process disconnected"})
    write("[2026-11-27 08:00:01.000 Server  4428] " + std::string(text) + "\n");
  EXPECT_EQ(log.news(), LogNews{});
  write("[2026-11-27 08:00:01.000 Server  4428] Command handle failed\n");
  EXPECT_TRUE(log.news().unusual);
  EXPECT_FALSE(log.news().unusual) << "each is told once";
}

using Requests = std::map<pid_t, std::uint64_t>;

TEST_F(MpsServerLog, ARequestIsUnansweredUntilItsWorkerIsThereOrRefused) {
  ServerLog log(directory());
  const auto unanswered = [&](const std::string& text) {
    write("[2026-11-27 08:00:01.000 Server  4428] " + text + "\n");
    (void)log.news();
    return log.unanswered();
  };
  EXPECT_EQ(unanswered("Received new client request"), Requests{}) << "this release may answer in unknown words";
  EXPECT_EQ(unanswered("Worker created"), Requests{});
  std::uint64_t number = 1;
  for (const char* answer : {"Worker created", "Failed to create worker",
                             "Failed to accept new client. Maximum number of clients (48) reached.",
                             "Teardown in progress, client creation denied", "Status of client {4711, 1} is ACTIVE"}) {
    ++number;
    EXPECT_EQ(unanswered("Received new client request"), (Requests{{4428, number}})) << answer;
    EXPECT_EQ(unanswered("Client process disconnected"), (Requests{{4428, number}})) << answer;
    EXPECT_EQ(unanswered("Received new client request"), (Requests{{4428, number}})) << "it is the first";
    EXPECT_TRUE(unanswered(answer).empty()) << answer;
  }
}

TEST_F(MpsServerLog, KnowsTheAnswersOfRelease580) {
  ServerLog log(directory());
  const std::string request = "Received new client request for {PID: 4267, Context ID: 0}\n";
  for (const char* answer : {"Client {PID: 4267, Context ID: 0} connected\n",
                             "Creating worker thread for client {PID: 4267, Context ID: 0}\n",
                             "Status of client {PID: 4267, Context ID: 0} is ACTIVE\n"}) {
    write(request + answer);
    EXPECT_EQ(log.news(), LogNews{}) << answer;
    EXPECT_EQ(log.unanswered(), Requests{}) << answer;
    write(request + "Client {PID: 4200, Context ID: 0} disconnected\n");
    EXPECT_EQ(log.news(), LogNews{});
    EXPECT_EQ(log.unanswered().size(), 1u) << answer;
    write(answer);
    EXPECT_EQ(log.news(), LogNews{}) << answer;
    EXPECT_EQ(log.unanswered(), Requests{}) << answer;
  }
}

// The answer may be among the lines that were lost.
TEST_F(MpsServerLog, ForgetsRequestsWithLostLines) {
  const std::string path = directory() + "/server.log";
  const std::string fault_list = "Server is handling a fatal GPU error.\nThe clients have a sticky error set:\n";
  for (const std::string how : {"flood", "cut", "again"}) {
    ServerLog log(directory());
    log.skip();
    write("Worker created\nReceived new client request\n" + fault_list);
    EXPECT_EQ(log.news().faults, (Faults{{0, {}}})) << how;
    EXPECT_EQ(log.unanswered().size(), 1u) << how;
    if (how == "flood") write(std::string(1 << 20, '\n'));
    if (how == "cut") std::filesystem::resize_file(path, 0);
    if (how == "again") std::filesystem::remove(path);
    write("4711\n");
    EXPECT_EQ(log.news().faults, Faults{}) << how;
    EXPECT_EQ(log.unanswered(), Requests{}) << how;
  }
}

// It would name no server, and so be taken for the present one's.
TEST_F(MpsServerLog, ALineWithoutItsBeginningIsNotRead) {
  ServerLog log(directory());
  const std::string rest = " Client process 12 encountered a fatal GPU error.\n";
  write("[2026-11-27 08:00:02.000 Server  4428]" + std::string(256 << 10, 'x') + rest);
  EXPECT_EQ(log.news().faults, Faults{});
}

TEST_F(MpsServerLog, AFloodOfFaultsHasALimit) {
  ServerLog log(directory());
  std::string text;
  for (int i = 1; i <= 1000; ++i) {
    text += "[t Server " + std::to_string(i) + "] Client process 9 encountered a fatal GPU error.\n";
    text += "[t Server 1] Client process " + std::to_string(i) + " encountered a fatal GPU error.\n";
  }
  write(text);
  const Faults faults = log.news().faults;
  EXPECT_EQ(faults.size(), 64u);
  EXPECT_EQ(faults.at(1).size(), 64u);
}

TEST_F(MpsServerLog, AClientThatLeavesIsNoFault) {
  ServerLog log(directory());
  write("Receive command failed, assuming client exit\nStatus of client {4711, 1} is INACTIVE\n12\n");
  EXPECT_EQ(log.news().faults, Faults{});
}

// The server knows no PID of a client in another PID namespace.
TEST_F(MpsServerLog, ClientsWithoutAPidAreNotNamed) {
  ServerLog log(directory());
  write(
      "Server is handling a fatal GPU error.\nStatus of client {0, 1} is INACTIVE\n"
      "Status of client {99999999999, 1} is INACTIVE\nStatus of client {} is INACTIVE\n");
  EXPECT_EQ(log.news().faults, (Faults{{0, {}}}));
}

TEST_F(MpsServerLog, WhatWasThereBeforeIsSkipped) {
  write("Server is handling a fatal GPU error.\n");
  ServerLog log(directory());
  log.skip();
  EXPECT_EQ(log.news().faults, Faults{});
  std::filesystem::remove(directory() + "/server.log");
  write("Client process 12 encountered a fatal GPU error.\n");
  EXPECT_EQ(log.news().faults, (Faults{{0, {12}}})) << "a log that was made again is read from its beginning";
}

TEST_F(MpsServerLog, AFloodIsReadFromItsEnd) {
  ServerLog log(directory());
  write("Server is handling a fatal GPU error.\n" + std::string(1 << 20, 'x') + "\n");
  EXPECT_EQ(log.news().faults, Faults{}) << "it is more than is read at once";
  write(std::string(1 << 20, '\n') + "Client process 12 encountered a fatal GPU error.\n");
  EXPECT_EQ(log.news().faults, (Faults{{0, {12}}}));
}

TEST_F(MpsServerLog, NoLinkAndNoPipeIsFollowed) {
  std::ofstream(folder_.base() + "/other") << "Server is handling a fatal GPU error.\n";
  std::filesystem::create_symlink(folder_.base() + "/other", directory() + "/server.log");
  ServerLog log(directory());
  EXPECT_EQ(log.news().faults, Faults{});
  std::filesystem::remove(directory() + "/server.log");
  ASSERT_EQ(::mkfifo((directory() + "/server.log").c_str(), 0600), 0);
  EXPECT_EQ(log.news().faults, Faults{});
}

}  // namespace
}  // namespace headgate::mps
