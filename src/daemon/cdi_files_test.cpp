#include "daemon/cdi_files.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "oci/cdi_read.hpp"
#include "oci/share_device.hpp"
#include "tenancy/test_live_shares.hpp"

namespace headgate::daemon {
namespace {

namespace fs = std::filesystem;

class CdiFilesTest : public tenancy::SharesTest {
 protected:
  CdiFilesTest() { fs::create_directories(directory_); }

  void make(const std::string& name) {
    const auto made = shares_.create(tenancy::share_of(name, ::geteuid(), 1ull << 30));
    ASSERT_TRUE(made) << made.error().message;
  }
  [[nodiscard]] CdiFiles files(const std::string& directory) { return {directory, "/node", {}, shares_, events_}; }
  [[nodiscard]] CdiFiles files() { return files(directory_); }
  [[nodiscard]] fs::path path(const std::string& share) const {
    return fs::path(directory_) / oci::share_file_name(share);
  }
  void put(const fs::path& at, const std::string& text) { std::ofstream(at) << text; }
  static std::string text_of(const fs::path& at) {
    std::ostringstream text;
    text << std::ifstream(at).rdbuf();
    return text.str();
  }
  // Returns the share as a snapshot shows it.
  static snapshot::Share shown(const CdiFiles& files, const std::string& share) {
    snapshot::Snapshot snapshot;
    snapshot.shares.emplace_back().name = share;
    files.write_into(snapshot);
    return snapshot.shares[0];
  }
  [[nodiscard]] std::vector<std::string> told() const {
    std::vector<std::string> kinds;
    for (const auto& event : events_.after(0, 100)) kinds.push_back(event.kind);
    return kinds;
  }
  [[nodiscard]] std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(directory_), fs::directory_iterator()));
  }

  const std::string directory_ = scratch_.path() + "/cdi";
  tenancy::Shares shares_ = start();
  observe::EventLog events_;
};

TEST_F(CdiFilesTest, AFileExistsWhileItsShareExists) {
  CdiFiles files = this->files();
  make("a");
  files.add("a");
  struct stat facts{};
  ASSERT_EQ(::stat(path("a").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 07777, 0644u);
  const auto document = oci::read_json(text_of(path("a")));
  ASSERT_TRUE(document) << document.error().message;
  EXPECT_EQ(document->devices[0].name, "a");
  EXPECT_EQ(oci::share_directory_of(*document), shares_.directory("a"));
  for (const auto& mount : document->devices[0].edits.mounts) {
    if (mount.host_path != "/node") {
      EXPECT_TRUE(fs::exists(mount.host_path)) << mount.host_path;
    }
  }
  EXPECT_EQ(text_of(shares_.node().runtime_dir + "/ld.so.preload"), "/run/headgate/libheadgate.so\n");
  EXPECT_EQ(shown(files, "a").cdi_file, path("a"));
  EXPECT_EQ(shown(files, "a").cdi_problem, "");
  files.remove("a");
  EXPECT_EQ(entries(), 0u);
  EXPECT_TRUE(told().empty());
}

TEST_F(CdiFilesTest, AStartRemovesFilesOfRemovedSharesOnly) {
  make("a");
  {
    CdiFiles files = this->files();
    files.start();
    make("gone");
    files.add("gone");
  }
  ASSERT_TRUE(shares_.remove("gone"));
  put(path("cut"), "");  // as a crash leaves it
  put(path("other"), "{}");
  put(fs::path(directory_) / "nvidia.yaml", "cdiVersion: 0.5.0\n");
  put(fs::path(directory_) / ".headgate.io-share.next", "{");
  const auto another = oci::share_document({.share = "theirs",
                                            .directory = "/run/other/shares/theirs",
                                            .limiter = "/l",
                                            .preload_list = "/p",
                                            .driver = {}});
  put(path("theirs"), oci::to_json(another));
  CdiFiles files = this->files();
  files.start();
  EXPECT_TRUE(fs::exists(path("a")));
  EXPECT_FALSE(fs::exists(path("gone")) || fs::exists(path("cut")));
  EXPECT_FALSE(fs::exists(fs::path(directory_) / ".headgate.io-share.next"));
  EXPECT_TRUE(fs::exists(path("other")) && fs::exists(path("theirs")));
  EXPECT_EQ(entries(), 4u);
}

TEST_F(CdiFilesTest, AForeignFileOfTheNameIsKeptAndReported) {
  make("a");
  make("b");
  make("c");
  put(path("a"), "{}");
  fs::create_directory(path("b"));
  ASSERT_EQ(::mkfifo(path("c").c_str(), 0600), 0);
  CdiFiles files = this->files();
  files.start();
  EXPECT_EQ(text_of(path("a")), "{}");
  EXPECT_TRUE(fs::is_directory(path("b")) && fs::is_fifo(path("c")));
  for (const char* share : {"a", "b", "c"})
    EXPECT_EQ(shown(files, share).cdi_problem,
              path(share).string() + " was not written by this headgated, which does not touch it; move it away");
  EXPECT_EQ(told(), (std::vector<std::string>(3, "cdi.unwritten")));
  files.keep();
  EXPECT_EQ(told().size(), 3u) << "what is known is not told again";
  files.remove("a");
  EXPECT_TRUE(fs::exists(path("a")));
  fs::remove(path("b"));
  files.keep();
  EXPECT_TRUE(fs::exists(path("b")));
  EXPECT_EQ(told().back(), "cdi.written");
}

TEST_F(CdiFilesTest, AFailedWriteIsRepeatedUntilItSucceeds) {
  make("a");
  const std::string inside = scratch_.path() + "/file/cdi";
  put(scratch_.path() + "/file", "");
  CdiFiles files = this->files(inside);
  files.start();
  EXPECT_EQ(shown(files, "a").cdi_problem, "cannot open the directory " + inside + ": Not a directory");
  fs::remove(scratch_.path() + "/file");
  files.keep();
  EXPECT_EQ(shown(files, "a").cdi_problem, "");
  EXPECT_TRUE(fs::exists(inside + "/headgate.io-share_a.json"));
  EXPECT_EQ(told(), (std::vector<std::string>{"cdi.unwritten", "cdi.written"}));
}

// A full disk, as far as a write can tell.
TEST_F(CdiFilesTest, AFailedWriteKeepsTheOldFileAndLeavesNoOther) {
  make("a");
  CdiFiles files = this->files();
  files.start();
  const std::string former = text_of(path("a"));
  shares_.find("a")->share.devices[0].memory_limit_bytes = 2ull << 30;
  put(path("a"), former);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{.rlim_cur = 64, .rlim_max = before.rlim_max};
  ::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  files.add("a");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, SIG_DFL);
  EXPECT_TRUE(shown(files, "a").cdi_problem.starts_with("cannot write '" + path("a").string() + "'"))
      << shown(files, "a").cdi_problem;
  EXPECT_EQ(text_of(path("a")), former);
  EXPECT_EQ(entries(), 1u);
  files.keep();
  EXPECT_EQ(shown(files, "a").cdi_problem, "");
}

// The directory may be a link, as /var/run is. The file of a share must not be one.
TEST_F(CdiFilesTest, FollowALinkToTheDirectoryAndNoLinkInIt) {
  make("a");
  make("b");
  const std::string link = scratch_.path() + "/link", elsewhere = scratch_.path() + "/elsewhere";
  fs::create_directory_symlink(directory_, link);
  put(elsewhere, "another's");
  fs::create_symlink(elsewhere, path("b"));
  CdiFiles files = this->files(link);
  files.start();
  EXPECT_TRUE(fs::is_regular_file(path("a")));
  EXPECT_TRUE(fs::is_symlink(path("b")));
  EXPECT_EQ(text_of(elsewhere), "another's");
  EXPECT_TRUE(shown(files, "b").cdi_problem.contains("was not written by this headgated, which does not touch it"));
}

TEST_F(CdiFilesTest, ARemovedFileIsWrittenAgain) {
  make("a");
  CdiFiles files = this->files();
  files.start();
  const std::string list = shares_.node().runtime_dir + "/ld.so.preload";
  fs::remove(path("a"));
  fs::remove(list);
  files.keep();
  EXPECT_TRUE(fs::exists(path("a")) && fs::exists(list));
  fs::remove_all(directory_);
  files.keep();
  EXPECT_TRUE(fs::exists(path("a")));
}

TEST_F(CdiFilesTest, AnInvalidDeviceNameHasNoFile) {
  make("old_");
  CdiFiles files = this->files();
  files.start();
  EXPECT_EQ(entries(), 0u);
  EXPECT_TRUE(shown(files, "old_").cdi_problem.starts_with("'old_' is not a valid name of a CDI device; "));
}

TEST_F(CdiFilesTest, NoFilesAreWrittenWithoutADirectory) {
  make("a");
  CdiFiles files = this->files("");
  files.start();
  files.keep();
  files.remove("a");
  files.add("a");
  EXPECT_EQ(entries(), 0u);
  EXPECT_EQ(shown(files, "a").cdi_file, "");
  EXPECT_TRUE(shown(files, "a").cdi_problem.starts_with("headgated writes no CDI files here; "));
  EXPECT_TRUE(told().empty());
}

// On a real node, with documents that NVIDIA's tools wrote.
TEST_F(CdiFilesTest, IncludeTheSharesGpuAndFollowItsChanges) {
  snapshot::Gpu gpu;
  gpu.uuid = tenancy::kGpu0;
  const auto tell = [&](const std::string& node) {
    put(scratch_.path() + "/next", R"({"cdiVersion":"0.5.0","kind":"nvidia.com/gpu","devices":[{"name":"0",)"
                                   R"("containerEdits":{"deviceNodes":[{"path":")" +
                                       node + R"(","major":195}]}}]})");
    fs::rename(scratch_.path() + "/next", directory_ + "/nvidia.json");
  };
  const auto node = [&] {
    const auto document = oci::read_json(text_of(path("a")));
    return document ? document->devices.at(0).edits.device_nodes : std::vector<oci::DeviceNode>{};
  };
  make("a");
  CdiFiles files(directory_, "", {gpu}, shares_, events_);
  files.start();
  EXPECT_FALSE(fs::exists(path("a")));
  EXPECT_TRUE(shown(files, "a").cdi_problem.contains("nvidia-ctk cdi generate")) << shown(files, "a").cdi_problem;
  tell("/dev/nvidia0");
  files.keep();
  ASSERT_EQ(node().size(), 1u);
  EXPECT_EQ(node()[0].path, "/dev/nvidia0");
  EXPECT_FALSE(node()[0].major);
  tell("/dev/nvidia7");
  files.keep();
  ASSERT_EQ(node().size(), 1u);
  EXPECT_EQ(node()[0].path, "/dev/nvidia7");
  EXPECT_EQ(told(), (std::vector<std::string>{"cdi.unwritten", "cdi.written"}));
}

TEST_F(CdiFilesTest, FollowTheSharesMemory) {
  snapshot::Gpu gpu;
  gpu.uuid = tenancy::kGpu0;
  put(directory_ + "/nvidia.json",
      R"({"cdiVersion":"0.5.0","kind":"nvidia.com/gpu","devices":[{"name":"0","containerEdits":{"hooks":[{"hookName":)"
      R"("createRuntime","path":"/h","args":["nvidia-cdi-hook","apply-cuda-memory-limits"]}]}}]})");
  const auto limit = [&] {
    const auto document = oci::read_json(text_of(path("a")));
    return document ? document->devices.at(0).edits.env.back() : document.error().message;
  };
  make("a");
  CdiFiles files(directory_, "", {gpu}, shares_, events_);
  files.start();
  EXPECT_EQ(limit(), "NVIDIA_GPU_MEMORY_LIMIT=1024");
  shares_.list().at("a").share.devices.at(0).memory_limit_bytes = (2ull << 30) - 5;
  files.keep();
  EXPECT_EQ(limit(), "NVIDIA_GPU_MEMORY_LIMIT=2048") << "in whole MiB, rounded up";
}

TEST(CdiDirectory, IsTheOptionsThenTheKeys) {
  const auto of = [](const std::string& option, const std::string& key) {
    config::Reading reading = config::defaults();
    config::read_text("[cdi]\ndir = \"" + key + "\"\n", "file", reading);
    Options options;
    options.cdi_dir = option;
    const auto directory = CdiFiles::directory_of(key.empty() ? config::defaults().config : reading.config, options);
    return directory ? *directory : directory.error().message;
  };
  EXPECT_EQ(of("/a", "/b"), "/a");
  EXPECT_EQ(of("", "/b"), "/b");
  EXPECT_EQ(of("none", "/b"), "");
  EXPECT_EQ(of("/a", "none"), "/a");
  EXPECT_EQ(of("a", ""), "--cdi-dir 'a' is a relative path");
  // With a private runtime directory the daemon is not the machine's.
  ::setenv("HEADGATE_RUNTIME_DIR", "/tmp/of-a-test", 1);
  EXPECT_EQ(of("", ""), "");
  ::unsetenv("HEADGATE_RUNTIME_DIR");
  EXPECT_EQ(of("", ""), ::geteuid() == 0 ? "/var/run/cdi" : "");
}

}  // namespace
}  // namespace headgate::daemon
