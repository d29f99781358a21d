#include "node/bypass.hpp"

#include <elf.h>
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/unique_fd.hpp"

namespace headgate::node {
namespace {

namespace fs = std::filesystem;

// A /proc with files that the test writes.
class Bypass : public ::testing::Test {
 protected:
  Bypass() {
    std::string path = fs::temp_directory_path() / "bypass-XXXXXX";
    proc_ = ::mkdtemp(path.data());
    fs::create_directories(proc_ + "/7/ns");
    fs::create_directories(proc_ + "/self/ns");
    fs::create_directory_symlink("/", proc_ + "/7/root");
  }
  ~Bypass() override { fs::remove_all(proc_); }

  void maps(const std::string& text) const { std::ofstream(proc_ + "/7/maps") << text; }
  void program(const std::string& path) const { fs::create_symlink(path, proc_ + "/7/exe"); }
  void name_space(const std::string& who, const std::string& kind) const {
    std::ofstream(proc_ + "/" + who + "/ns/" + kind) << who;
  }

  std::string proc_;
};

TEST_F(Bypass, AProgramWithoutTheLimiterIsReported) {
  program("/bin/sh");
  maps("1000-2000 r-xp 0 08:01 4  /usr/lib/libc.so.6\n");
  EXPECT_EQ(how_it_goes_around(7, proc_), "the limiter is not loaded");
  maps("1000-2000 r-xp 0 08:01 4  /opt/headgate/libheadgate.so\n");
  EXPECT_EQ(how_it_goes_around(7, proc_), "");
  // Mapped as data it limits nothing.
  maps("1000-2000 r--p 0 08:01 4  /opt/headgate/libheadgate.so\n1000-2000 r-xp 0 08:01 4  /usr/lib/libc.so.6\n");
  EXPECT_EQ(how_it_goes_around(7, proc_), "the limiter is not loaded");
}

TEST_F(Bypass, SeparateNamespacesAreNamed) {
  for (const char* kind : {"user", "mnt", "pid"}) name_space("7", kind), name_space("self", kind);
  EXPECT_EQ(how_it_goes_around(7, proc_), "it has its own user and mount and pid namespaces");
  fs::remove(proc_ + "/7/ns/user");
  fs::remove(proc_ + "/7/ns/pid");
  EXPECT_EQ(how_it_goes_around(7, proc_), "it has its own mount namespace");
}

// A mapped path may name another file when it is opened, one on which opening has an effect.
TEST_F(Bypass, OnlyRegularFilesAreOpened) {
  program("/bin/sh");
  const std::string pipe = proc_ + "/it (deleted)", link = proc_ + "/link";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  fs::create_symlink(pipe, link);
  const UniqueFd opened(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  ASSERT_GE(::inotify_add_watch(opened.get(), pipe.c_str(), IN_OPEN), 0);
  maps("1000-2000 r-xp 0 08:01 4  " + pipe + "\n1000-2000 r-xp 0 08:01 4  " + link + "\n");
  EXPECT_EQ(how_it_goes_around(7, proc_), "the limiter is not loaded");
  char event[256];
  EXPECT_EQ(::read(opened.get(), event, sizeof event), -1) << "it was opened";
}

TEST_F(Bypass, BrokenFilesExplainNothing) {
  EXPECT_EQ(how_it_goes_around(8, proc_), "");
  std::ofstream(proc_ + "/broken") << "\x7f" << "ELF and no more";
  program(proc_ + "/broken");
  maps("not a line\n1000-2000 r-xp 0 08:01 4  " + proc_ + "/broken\n1000-2000 r-xp 0 08:01 4  /gone (deleted)\n");
  EXPECT_EQ(how_it_goes_around(7, proc_), "the limiter is not loaded");
}

// A symbol table with all names at the first of `names` bytes without an end, as no linker writes it.
class Crafted {
 public:
  Crafted(const std::string& path, std::size_t symbols, std::size_t names, const std::string& last = {}) {
    const std::size_t table = sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr) + 2 * sizeof(Elf64_Shdr);
    Elf64_Ehdr head{};
    std::copy_n(ELFMAG, SELFMAG, head.e_ident);
    head.e_ident[EI_CLASS] = ELFCLASS64;
    head.e_phentsize = sizeof(Elf64_Phdr), head.e_phnum = 1, head.e_phoff = sizeof head;
    head.e_shentsize = sizeof(Elf64_Shdr), head.e_shnum = 2, head.e_shoff = sizeof head + sizeof(Elf64_Phdr);
    Elf64_Phdr segment{};
    segment.p_type = PT_LOAD;
    Elf64_Shdr section[2]{};
    section[0].sh_type = SHT_DYNSYM, section[0].sh_link = 1;
    section[0].sh_offset = table, section[0].sh_size = symbols * sizeof(Elf64_Sym);
    section[1].sh_type = SHT_STRTAB;
    section[1].sh_offset = table + section[0].sh_size, section[1].sh_size = names;
    std::vector<Elf64_Sym> all(symbols);
    for (auto& symbol : all) symbol.st_shndx = 1;
    std::string text(names, 'x');
    if (!last.empty()) {
      all.back().st_name = static_cast<Elf64_Word>(names - last.size() - 1);
      text.replace(all.back().st_name, last.size() + 1, last.c_str(), last.size() + 1);
    }
    std::ofstream out(path, std::ios::binary);
    const auto put = [&](const void* bytes, std::size_t count) {
      out.write(static_cast<const char*>(bytes), static_cast<std::streamsize>(count));
    };
    put(&head, sizeof head), put(&segment, sizeof segment), put(section, sizeof section);
    put(all.data(), all.size() * sizeof(Elf64_Sym)), put(text.data(), text.size());
  }
};

double thread_seconds() {
  timespec used{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
}

std::string mapping(const std::string& path) { return "1000-2000 r-xp 0 08:01 4  " + path + "\n"; }

constexpr std::size_t kNames = 8u << 20;

// The figure is processor time: when each name was read to its end, that took most of a minute.
TEST_F(Bypass, ASlowFileDoesNotDelayIt) {
  Crafted(proc_ + "/slow.so", 65'536, kNames);
  program("/bin/sh");
  std::string text;
  for (const char* name : {"/slow.so", "/slow2.so", "/slow3.so", "/slow4.so"}) {
    if (!fs::exists(proc_ + name)) fs::create_hard_link(proc_ + "/slow.so", proc_ + name);
    text += mapping(proc_ + name);
  }
  maps(text);
  const double before = thread_seconds();
  EXPECT_EQ(how_it_goes_around(7, proc_), "the limiter is not loaded");
  EXPECT_LT(thread_seconds() - before, 5.0);
}

constexpr const char* kNoProcToOpenBy = "a file that was looked at is opened by /proc";

TEST_F(Bypass, ANameAtTheTablesEndIsFoundAndALongerOneIsNot) {
  if (::access("/proc/self", F_OK) != 0) GTEST_SKIP() << kNoProcToOpenBy;
  Crafted(proc_ + "/copy.so", 3, 4096, "cuMemAlloc_v2");
  Crafted(proc_ + "/other.so", 3, 4096, "cuMemAlloc_v2_ptsz");
  program("/bin/sh");
  maps(mapping(proc_ + "/copy.so") + mapping(proc_ + "/other.so"));
  EXPECT_EQ(how_it_goes_around(7, proc_),
            "the limiter is not loaded; it has a copy of the driver's library: " + proc_ + "/copy.so");
}

TEST_F(Bypass, AFileWithManyNamesIsReadOnce) {
  if (::access("/proc/self", F_OK) != 0) GTEST_SKIP() << kNoProcToOpenBy;
  Crafted(proc_ + "/0.so", 1, kNames, "cuMemAlloc_v2");
  std::string text = mapping(proc_ + "/0.so");
  for (int i = 1; i < 100; ++i) {
    fs::create_hard_link(proc_ + "/0.so", proc_ + "/" + std::to_string(i) + ".so");
    text += mapping(proc_ + "/" + std::to_string(i) + ".so");
  }
  program("/bin/sh");
  maps(text);
  EXPECT_EQ(how_it_goes_around(7, proc_),
            "the limiter is not loaded; it has a copy of the driver's library: " + proc_ + "/0.so");
}

TEST_F(Bypass, TheCostOfAllFilesIsBoundedAndReported) {
  if (::access("/proc/self", F_OK) != 0) GTEST_SKIP() << kNoProcToOpenBy;
  std::string text;
  for (int i = 0; i < 40; ++i) {
    const std::string path = proc_ + "/" + std::to_string(i) + ".so";
    Crafted(path, 1, 4096);
    // Names of 8 MiB that take no space on the disk.
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    Elf64_Shdr section{};
    file.seekg(sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr) + sizeof section);
    file.read(reinterpret_cast<char*>(&section), sizeof section);
    section.sh_size = kNames;
    file.seekp(sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr) + sizeof section);
    file.write(reinterpret_cast<const char*>(&section), sizeof section);
    file.close();
    fs::resize_file(path, section.sh_offset + kNames);
    text += mapping(path);
  }
  program("/bin/sh");
  maps(text);
  EXPECT_EQ(how_it_goes_around(7, proc_), "the limiter is not loaded; it has mapped more than is looked through");
}

// The file that a process of these users runs, and the process that started it.
class Trusted : public Bypass {
 protected:
  void process(std::uint32_t pid, std::uint32_t uid, std::uint32_t parent, const std::string& path) const {
    const std::string folder = proc_ + "/" + std::to_string(pid), id = std::to_string(uid);
    fs::create_directories(folder + "/ns");
    std::ofstream(folder + "/status") << "Pid:\t" << pid << "\nPPid:\t" << parent << "\nUid:\t" << id << "\t" << id
                                      << "\n";
    fs::create_directories(folder + "/task/" + std::to_string(pid));
    std::ofstream(folder + "/task/" + std::to_string(pid) + "/stat")
        << pid << " (x) S 1 1 1 0 0 0 0 0 0 0 0 0 0 0 0 0 1 0 77 0\n";
    fs::remove(folder + "/exe");
    fs::create_symlink(path, folder + "/exe");
  }
  static constexpr std::uint32_t kUser = 4711;
  const std::string sh_ = fs::canonical("/bin/sh");
  const std::string sh_name_ = fs::path(sh_).filename();
};

TEST_F(Trusted, OnlyRootsFileNamesAProgramOfRoots) {
  process(7, 0, 1, sh_);
  EXPECT_EQ(trusted_program(7, proc_).name, sh_name_);
  EXPECT_FALSE(trusted_program(7, proc_).parent);
  EXPECT_EQ(trusted_program(8, proc_).name, "");
  const std::string own = proc_ + "/Xorg";
  fs::copy_file("/bin/sh", own);
  fs::permissions(own, fs::perms::others_write, fs::perm_options::add);
  process(7, 0, 1, own);
  EXPECT_EQ(trusted_program(7, proc_).name, "") << "anybody may write it";
}

TEST_F(Trusted, AUsersProcessGetsTheFilesNameButNoRights) {
  process(7, kUser, 1, sh_);
  EXPECT_EQ(trusted_program(7, proc_).name, sh_name_);
  EXPECT_EQ(trusted_program(7, proc_).parent, "") << "the process that started it is not known";
  process(6, kUser, 1, sh_);
  process(7, kUser, 6, sh_);
  EXPECT_EQ(trusted_program(7, proc_).parent, "") << "a user of his own started it";
  process(6, 0, 1, sh_);
  EXPECT_EQ(trusted_program(7, proc_).parent, sh_name_);
}

// In a private namespace a user can mount anything over any name; outside it, the name is the user's link to the same
// file.
TEST_F(Trusted, AUsersLinkGivesRootsFileNoOtherName) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can own the folders";
  const std::string safe = fs::path("/run") / fs::path(proc_).filename(), link = safe + "/Xorg";
  if (!fs::create_directory(safe)) GTEST_SKIP() << "/run cannot be written here";
  fs::create_symlink(sh_, link);
  // What /proc/PID/exe says may differ from what it leads to: here by a link that leads on.
  process(7, kUser, 1, link);
  EXPECT_EQ(trusted_program(7, proc_).name, "");
  fs::remove(link);
  fs::copy_file(sh_, link);
  EXPECT_EQ(trusted_program(7, proc_).name, "Xorg");
  fs::permissions(safe, fs::perms::group_write, fs::perm_options::add);
  EXPECT_EQ(trusted_program(7, proc_).name, "") << "others may rename in it";
  fs::permissions(safe, fs::perms::all | fs::perms::sticky_bit);
  EXPECT_EQ(trusted_program(7, proc_).name, "") << "as in /tmp";
  fs::permissions(safe, fs::perms::owner_all);
  EXPECT_EQ(::chown(safe.c_str(), kUser, kUser), 0);
  EXPECT_EQ(trusted_program(7, proc_).name, "") << "a user's folder";
  fs::remove_all(safe);
}

// A container's MPS server: on the node its path leads nowhere safe. Under root's process that started it, it leads to
// the same file.
TEST_F(Trusted, AContainersProgramIsLookedUpInTheContainer) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can own the folders";
  const std::string safe = fs::path("/run") / fs::path(proc_).filename(), path = safe + "/open/server";
  if (!fs::create_directories(safe + "/open")) GTEST_SKIP() << "/run cannot be written here";
  fs::copy_file(sh_, path);
  fs::permissions(safe + "/open", fs::perms::others_write, fs::perm_options::add);
  const std::string inside = safe + "/root" + safe + "/open";
  fs::create_directories(inside);
  fs::create_hard_link(path, inside + "/server");
  process(6, 0, 1, path);
  process(7, kUser, 6, path);
  fs::create_directory_symlink(safe + "/root", proc_ + "/6/root");
  EXPECT_EQ(trusted_program(7, proc_).name, "server");
  EXPECT_EQ(trusted_program(7, proc_).parent, "server");
  process(6, kUser, 1, path);
  EXPECT_EQ(trusted_program(7, proc_).name, "") << "a user's container";
  fs::remove_all(safe);
}

}  // namespace
}  // namespace headgate::node
