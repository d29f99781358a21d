#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <set>
#include <string>

#include "guest/ledger/check.hpp"
#include "guest/ledger/directory.hpp"

namespace headgate::ledger {
namespace {

std::string words(const PageFault& fault) {
  char text[512];
  const std::size_t length = explain(fault, text, sizeof text);
  EXPECT_EQ(length, std::strlen(text));
  return text;
}

PageFault with_errno(int error) { return system_fault("usage", error); }

const struct {
  PageFault fault;
  const char* words;
} kSentences[] = {
    {{}, "nothing is wrong"},
    {fault(PageError::bad_name, "a b"),
     "share name \"a b\" is not usable: accepted are 1 to 63 of A-Z a-z 0-9 _ - . and no dot in front; choose another "
     "name"},
    {fault(PageError::bad_device_count, "x", 17, 16), "share \"x\" names 17 GPUs: accepted are 1 to 16"},
    {fault(PageError::bad_uuid, "GPU 1"),
     "GPU id \"GPU 1\" is not one: accepted are GPU-... and MIG-... as nvidia-smi -L shows"},
    {fault(PageError::duplicate_uuid, "GPU-1"), "GPU \"GPU-1\" is named twice in one share: name it once"},
    {fault(PageError::bad_memory_limit, "GPU-1"),
     "memory limit 0 on \"GPU-1\": accepted is 1 byte or more; leave the limit out for none"},
    {fault(PageError::bad_ceiling, "GPU-1", 1'005'000, kWholeGpu),
     "compute ceiling 100.5 % on \"GPU-1\": accepted is more than 0 % and at most 100 %"},
    {fault(PageError::asks_first, "a"),
     "share \"a\" asks a scheduler about each process, which only headgated does: enter it with headgate run --share"},
    {fault(PageError::draining, "a"),
     "share \"a\" is being drained: it takes no new process until its owner resumes it"},
    {fault(PageError::bad_burst, "GPU-1", 200'000, 250'000),
     "compute burst 20 % on \"GPU-1\": accepted is more than the ceiling, 25 %, and at most 100 %"},
    {fault(PageError::bad_guarantee, "GPU-1", 300'000, 250'100),
     "compute guarantee 30 % on \"GPU-1\": accepted is at most the ceiling, 25.01 %"},
    {fault(PageError::bad_weight, "GPU-1", 1001, 1000), "weight 1001 on \"GPU-1\": accepted are 1 to 1000"},
    {fault(PageError::bad_class, "GPU-1", 3, 2),
     "class 3 on \"GPU-1\": accepted are 0 (best effort), 1 (normal), 2 (latency)"},
    {fault(PageError::bad_level, "x", 9, 4), "level 9 of share \"x\": accepted are 0 to 4"},
    {fault(PageError::bad_fail_policy, "x", 2, 1),
     "fail policy 2 of share \"x\": accepted are 0 (open) and 1 (closed)"},
    {fault(PageError::relative_path, "run"),
     "\"run\" is a relative path, which names other shares in each directory; set HEADGATE_RUNTIME_DIR (or "
     "XDG_RUNTIME_DIR) to a path that begins with /"},
    {with_errno(ENAMETOOLONG), "\"usage\" is too long a path; set HEADGATE_RUNTIME_DIR to a directory of your own"},
    {fault(PageError::no_directory, "/no/such"),
     "\"/no/such\" cannot be made: the directory above it does not exist; make it, or set HEADGATE_RUNTIME_DIR"},
    {fault(PageError::no_runtime_directory, "/tmp/empty", 1),
     "\"/tmp/empty\" has no directory 'shares' in it, so it holds no share: headgate run makes both; if shares were "
     "made "
     "elsewhere, set HEADGATE_RUNTIME_DIR to that place"},
    {fault(PageError::no_runtime_directory, "/run/user/1000/headgate"),
     "\"/run/user/1000/headgate\" does not exist, so it holds no share: headgate run makes both; if shares were made "
     "elsewhere, set HEADGATE_RUNTIME_DIR to that place"},
    {fault(PageError::foreign_owner, "usage", 12, 1000),
     "\"usage\" belongs to uid 12, accepted is only your own, 1000; set HEADGATE_RUNTIME_DIR to a directory of your "
     "own"},
    {fault(PageError::open_permissions, "usage", 0620, 0600),
     "\"usage\" has mode 0620, so others could change it; accepted is 0600: use chmod"},
    {with_errno(ELOOP), "\"usage\" is a symbolic link, which is refused: remove it"},
    {fault(PageError::not_a_file, "usage"),
     "\"usage\" is of another kind than expected (file or directory): remove it"},
    {with_errno(EROFS),
     "\"usage\" lies on a read-only file system; set HEADGATE_RUNTIME_DIR to a directory of your own"},
    {with_errno(ENOSPC),
     "\"usage\" cannot be made: no space left on its file system; free some, or set HEADGATE_RUNTIME_DIR to a "
     "directory of your own"},
    {fault(PageError::file_size_limit, "usage", 1024, 807'040),
     "\"usage\" needs 807040 bytes, but your file size limit (ulimit -f) is 1024; raise the limit"},
    {with_errno(EACCES),
     "\"usage\" may not be opened or made by you; set HEADGATE_RUNTIME_DIR to a directory of your own"},
    {with_errno(EIO),
     "\"usage\" cannot be opened or made (errno 5); set HEADGATE_RUNTIME_DIR to a directory of your own"},
    {fault(PageError::not_found, "x"), "there is no share \"x\": headgate run --name NAME makes one"},
    {fault(PageError::truncated, "usage", 100, 807'040),
     "the share's page \"usage\" is cut short: 100 bytes of 807040; end the share's processes, remove its directory "
     "and "
     "start again"},
    {fault(PageError::wrong_size, "usage", 900'000, 807'040),
     "the share's page \"usage\" has 900000 bytes, expected 807040; end the share's processes, remove its directory "
     "and "
     "start again"},
    {fault(PageError::wrong_magic, "policy", 0xabc, kPolicyMagic),
     "the share's page \"policy\" is not a page of headgate (it begins 0xabc); end the share's processes, remove its "
     "directory and start again"},
    {fault(PageError::pages_newer, "usage", 2, 1), "pages are version 2, this limiter knows 1: update libheadgate.so"},
    {fault(PageError::pages_older, "usage", 0, 1),
     "pages are version 0, this limiter knows only 1: end the share's processes and start them with this headgate, or "
     "use the libheadgate.so that made it"},
    {fault(PageError::page_missing, "usage"),
     "the share's page \"usage\" is missing: it was removed; end the share's processes, remove its directory and "
     "start again"},
    {fault(PageError::wrong_name, "y"),
     "the share's page \"y\" is of another share than its directory says; end the share's processes, remove its "
     "directory and start again"},
    {fault(PageError::unterminated, "name"),
     "the share's page \"name\" holds a name without an end; end the share's processes, remove its directory and start "
     "again"},
    {fault(PageError::pages_disagree, "device count", 3, 2),
     "the share's pages disagree about the device count (usage: 3, policy: 2); end the share's processes, remove its "
     "directory and start again"},
    {fault(PageError::bad_slot_count, "usage", 255, 256),
     "the share's page \"usage\" has 255 slots, expected 256; end the share's processes, remove its directory and "
     "start "
     "again"},
    {fault(PageError::already_exists, "x"),
     "share \"x\" exists already: join it with the same values, or choose another name"},
    {fault(PageError::different_values, "compute ceiling of GPU-1", 250'000, 500'000),
     "the share exists with other values: compute ceiling of GPU-1 is 25 %, asked was 50 %; ask for the same values or "
     "use another name"},
    {fault(PageError::different_values, "memory limit of GPU-1", kNoMemoryLimit, 1537ull << 20),
     "the share exists with other values: memory limit of GPU-1 is no limit, asked was 1537 MiB; ask for the same "
     "values or use another name"},
    {fault(PageError::other_devices, "GPU-2"),
     "the share exists with other GPUs: \"GPU-2\" is not among them; ask for the same GPUs or use another name"},
    {fault(PageError::slots_full, "x", 256, 256),
     "share \"x\" has 256 processes, which is the most: end one, or use another share"},
    {fault(PageError::busy, ".lock"),
     "\".lock\" has been kept busy by another process for more than 5 s: it may be stopped; continue or end it"},
};

TEST(Explain, EveryFaultNamesTheValueAndWhatToDo) {
  std::set<PageError> said;
  for (const auto& sentence : kSentences) {
    EXPECT_EQ(words(sentence.fault), sentence.words);
    said.insert(sentence.fault.error);
  }
  for (std::uint32_t i = 0; i <= static_cast<std::uint32_t>(PageError::asks_first); ++i)
    EXPECT_TRUE(said.contains(static_cast<PageError>(i))) << "no sentence is tested for error " << i;
}

TEST(Explain, NamesTheRuntimeDirectoryToCheck) {
  const auto words_in = [](const PageFault& bad, const char* base) {
    char text[512];
    explain(bad, text, sizeof text, base);
    return std::string(text);
  };
  EXPECT_EQ(words_in(system_fault("usage", ENOSPC), "/run/me/headgate"),
            "\"usage\" in \"/run/me/headgate\" cannot be made: no space left on its file system; free some, or set "
            "HEADGATE_RUNTIME_DIR to a directory of your own");
  EXPECT_EQ(words_in(fault(PageError::open_permissions, "/run/me/headgate", 0777, 0700), "/run/me/headgate"),
            "\"/run/me/headgate\" has mode 0777, so others could change it; accepted is 0700: use chmod");
  EXPECT_EQ(words_in(fault(PageError::page_missing, "usage"), "/run/me"),
            "the share's page \"usage\" is missing: it was removed; end the share's processes, remove its directory "
            "(in \"/run/me\") and start again");
}

TEST(Explain, AShortBufferGetsAValidBeginning) {
  const PageFault refused = fault(PageError::bad_name, "a b");
  const std::string whole = words(refused);
  char text[64];
  for (std::size_t size = 1; size <= sizeof text; ++size) {
    std::memset(text, 'x', sizeof text);
    EXPECT_EQ(explain(refused, text, size), size - 1);
    EXPECT_EQ(text, whole.substr(0, size - 1));
  }
  EXPECT_EQ(explain(refused, nullptr, 0), 0u);
}

TEST(Explain, NamesOfACorruptedPageCannotDriveTheTerminal) {
  EXPECT_EQ(words(fault(PageError::wrong_name, "a\x1b[2J\nb\xff")).substr(0, 33),
            "the share's page \"a?[2J?b?\" is of");
}

}  // namespace
}  // namespace headgate::ledger
