#include "guest/pathinject/list.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace headgate::pathinject {
namespace {

std::string with(std::string_view current, const Additions& additions, std::string_view separators = kPathSeparators,
                 std::size_t room = 4096) {
  std::string out(room, 'x');
  return edited(current, additions, separators, out) ? out.c_str() : "stays";
}

std::vector<std::string> entries(std::string_view list, std::string_view separators) {
  std::vector<std::string> all;
  if (list.empty()) return all;
  for (;;) {
    const std::size_t end = list.find_first_of(separators);
    all.emplace_back(list.substr(0, end));
    if (end == std::string_view::npos) return all;
    list.remove_prefix(end + 1);
  }
}

TEST(PathList, MissingEntriesAreAddedInOrder) {
  EXPECT_EQ(with("/bin", {{"/a:/b"}, {"/c:/d"}}), "/a:/b:/bin:/c:/d");
  EXPECT_EQ(with("/bin", {{"/a", "/tf/a"}, {"/c", "/tf/c"}}), "/a:/tf/a:/bin:/c:/tf/c");
  EXPECT_EQ(with("", {{"/a"}, {"/c"}}), "/a:/c");
}

TEST(PathList, ExistingEntriesStayInPlace) {
  EXPECT_EQ(with("/venv:/a:/bin", {{"/a"}, {}}), "stays");
  EXPECT_EQ(with("/c:/bin", {{"/a"}, {"/c"}}), "/a:/c:/bin");
  EXPECT_EQ(with("/bin", {{"/a", "/a"}, {"/a:/c:/c"}}), "/a:/bin:/c");
  EXPECT_EQ(with("/bin:/bin", {{}, {"/c"}}), "/bin:/bin:/c") << "its own duplicates are its own";
  EXPECT_EQ(with("/usr/bin", {{}, {"/usr"}}), "/usr/bin:/usr") << "a beginning is another entry";
}

TEST(PathList, TheCurrentDirectoryIsNeitherAddedNorRemoved) {
  EXPECT_EQ(with("/bin", {{""}, {":"}}), "stays");
  EXPECT_EQ(with("/bin", {{":/a:"}, {"::/c"}}), "/a:/bin:/c");
  EXPECT_EQ(with("", {{":"}, {""}}), "stays");
  EXPECT_EQ(with("/bin:", {{"/a"}, {"/c"}}), "/a:/bin::/c") << "its empty entry at the end is still one";
  EXPECT_EQ(with(":/bin", {{"/a"}, {}}), "/a::/bin");
}

TEST(PathList, EachKindOfListHasItsOwnSeparators) {
  EXPECT_EQ(with("libm.so libc.so", {{"/a.so /b.so"}, {"libc.so:/c.so"}}, kPreloadSeparators),
            "/a.so:/b.so:libm.so libc.so:/c.so");
  EXPECT_EQ(with("/x;/y", {{}, {"/y;/z"}}, kLibraryPathSeparators), "/x;/y:/z");
  EXPECT_EQ(with("/with space:/x", {{}, {"/with space:/y;z"}}), "/with space:/x:/y;z");
}

TEST(PathList, AListThatDoesNotFitIsNotCut) {
  EXPECT_EQ(with("/bin", {{}, {"/abc"}}, kPathSeparators, 10), "/bin:/abc");
  EXPECT_EQ(with("/bin", {{}, {"/abc"}}, kPathSeparators, 9), "stays");
  EXPECT_EQ(with("/bin", {{}, {"/abc"}}, kPathSeparators, 0), "stays");
}

rc::Gen<std::string> lists() { return rc::gen::container<std::string>(rc::gen::element('a', 'b', '/', ':', ';', ' ')); }

RC_GTEST_PROP(PathList, AnyListKeepsItsEntriesAndOrder, ()) {
  const std::string current = *lists(), a = *lists(), b = *lists(), c = *lists(), d = *lists();
  const Additions additions = {{a, b}, {c, d}};
  for (const std::string_view separators : {kPathSeparators, kLibraryPathSeparators, kPreloadSeparators}) {
    const std::string after = with(current, additions, separators);
    if (after == "stays") continue;
    const auto was = entries(current, separators), is = entries(after, separators);
    RC_ASSERT(is.size() > was.size());
    // The old entries appear in one piece and in order; every other entry is new, not empty, and appears once.
    const auto old = std::ranges::search(is, was);
    RC_ASSERT(old.size() == was.size());
    for (const std::string& entry : is) {
      const auto before = std::ranges::count(was, entry);
      RC_ASSERT(std::ranges::count(is, entry) == std::max<std::ptrdiff_t>(before, 1));
      RC_ASSERT(before > 0 || !entry.empty());
    }
    for (const std::string& list : {a, b, c, d})
      for (const std::string& entry : entries(list, separators))
        RC_ASSERT(entry.empty() || std::ranges::count(is, entry) > 0);
    RC_ASSERT(with(after, additions, separators) == "stays");
  }
}

}  // namespace
}  // namespace headgate::pathinject
