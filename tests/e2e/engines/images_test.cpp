// Real roots of other distributions, as dev/real-parts unpacks them: those that can load the limiter are held, and of
// the others the node's policy decides, in one sentence.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "share_node.hpp"

namespace headgate::e2e {
namespace {

namespace fs = std::filesystem;

class ImageRoot : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::access(kImages.c_str(), F_OK) != 0) GTEST_SKIP() << "dev/real-parts has not been run";
    if (::access("/usr/sbin/runc", X_OK) != 0) GTEST_SKIP() << "there is no /usr/sbin/runc";
    if (::geteuid() != 0 || ::access("/sys/fs/cgroup", W_OK) != 0) GTEST_SKIP() << "only root may run it by itself";
  }
  ~ImageRoot() override {
    if (IsSkipped()) return;
    static_cast<void>(outcome_of({"/usr/sbin/runc", "--root", state(), "delete", "--force", id_}));
  }

  // A copy of the root, with what a container needs; empty: none of that name.
  [[nodiscard]] std::string root(const std::string& name) const {
    const std::string root = folder_.path() + "/" + name;
    fs::copy(kImages + "/" + name, root, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    for (const char* place : {"/proc", "/dev", "/etc", "/run", "/tmp"}) fs::create_directories(root + place);
    return root;
  }
  [[nodiscard]] Outcome run(const ShareNode& node, const std::string& root, const std::vector<std::string>& words,
                            const std::string& policy) const {
    std::ofstream(folder_.path() + "/config.toml")
        << "[cdi]\ndir = '" << node.directory.path() << "'\n[runtime]\nprogram = '/usr/sbin/runc'\nimage = '" << policy
        << "'\n";
    const nlohmann::json config = {
        {"ociVersion", "1.0.2"},
        {"root", {{"path", root}}},
        {"process",
         {{"user", {{"uid", 0}, {"gid", 0}}}, {"args", words}, {"env", {"PATH=/usr/bin:/bin"}}, {"cwd", "/"}}},
        {"mounts", {{{"destination", "/proc"}, {"type", "proc"}, {"source", "proc"}}}},
        {"annotations", {{"headgate.io/share", "alice"}}},
        {"linux",
         {{"cgroupsPath", "/" + id_}, {"namespaces", {{{"type", "pid"}}, {{"type", "mount"}}, {{"type", "ipc"}}}}}}};
    fs::create_directories(folder_.path() + "/bundle");
    std::ofstream(folder_.path() + "/bundle/config.json") << config.dump();
    return outcome_of({HEADGATE_OCI, "--headgate-config", folder_.path() + "/config.toml", "--root", state(), "run",
                       "--bundle", folder_.path() + "/bundle", id_});
  }
  // The one sentence of a refusal, without its hint.
  [[nodiscard]] std::string refusal(const ShareNode& node, const std::string& root,
                                    const std::vector<std::string>& words, const std::string& policy) const {
    const Outcome refused = run(node, root, words, policy);
    EXPECT_EQ(refused.status, 1);
    EXPECT_EQ(refused.out, "");
    return refused.err.substr(0, refused.err.find(" ("));
  }
  [[nodiscard]] std::string state() const { return folder_.path() + "/state"; }

  const std::string kImages = IMAGE_ROOTS;
  const Directory folder_{"/tmp"};
  const std::string id_ = new_container_id();
};

// Its own shell and C library, and ours beside them.
TEST_F(ImageRoot, LoadsTheLimiterInDebian11And13) {
  const ShareNode node(false);
  for (const char* name : {"deb11", "deb13"}) {
    const std::string root = this->root(name);
    // Debian 13's links of the merged /usr come with another package.
    if (!fs::exists(root + "/bin")) fs::create_directory_symlink("usr/bin", root + "/bin");
    if (!fs::exists(root + "/lib")) fs::create_directory_symlink("usr/lib", root + "/lib");
    if (!fs::exists(root + "/lib64")) fs::create_directory_symlink("usr/lib64", root + "/lib64");
    const Outcome ran = run(node, root,
                            {"/bin/dash", "-c",
                             "while read line; do case $line in *libheadgate.so) echo loaded; break;; esac; done "
                             "</proc/self/maps"},
                            "refuse");
    EXPECT_EQ(ran.out, "loaded\n") << name << ": " << ran.err;
    EXPECT_EQ(ran.err, "") << name;
  }
}

TEST_F(ImageRoot, FollowsTheNodesPolicyForBusybox) {
  const ShareNode node(false);
  const std::string root = this->root("busybox");
  const std::vector<std::string> words = {"/bin/busybox", "sh", "-c",
                                          "echo started; [ -s /etc/ld.so.preload ] || echo no list"};
  const std::string why =
      "headgate: the share 'alice' cannot hold this image: its first program is static, and it has no C library";
  EXPECT_EQ(refusal(node, root, words, "refuse"), why);
  EXPECT_EQ(refusal(node, root, words, "mps"), why + "; and the share has no MPS, which would");
  const Outcome started = run(node, root, words, "warn");
  EXPECT_EQ(started.out, "started\nno list\n") << started.err;
  EXPECT_TRUE(started.err.starts_with(why + "; it starts unlimited")) << started.err;
}

// musl's loader and C library, as in Alpine; whose /bin/busybox is a dynamic program of it.
TEST_F(ImageRoot, FollowsTheNodesPolicyForMusl) {
  const ShareNode node(false);
  const std::string root = this->root("musl");
  fs::copy_file(kImages + "/busybox/bin/busybox", root + "/busybox");
  const std::vector<std::string> words = {"/busybox", "sh", "-c", "echo started"};
  const std::string why =
      "headgate: the share 'alice' cannot hold this image: it is built for musl, and the limiter for glibc";
  EXPECT_EQ(refusal(node, root, words, "refuse"), why);
  const Outcome started = run(node, root, words, "warn");
  EXPECT_EQ(started.out, "started\n") << started.err;
  EXPECT_TRUE(started.err.starts_with(why + "; it starts unlimited")) << started.err;
}

}  // namespace
}  // namespace headgate::e2e
