// A server that once runs out of memory for a connection.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "http/server.hpp"
#include "http/test_server.hpp"

namespace {
// Fails allocations of the size of a connection with its inbox, and no others.
std::atomic<int> failing_connections = 0;
constexpr std::size_t kLeast = 16 << 10, kMost = 20 << 10;

bool fails(std::size_t bytes) {
  if (bytes < kLeast || bytes > kMost) return false;
  int left = failing_connections;
  while (left > 0 && !failing_connections.compare_exchange_weak(left, left - 1));
  return left > 0;
}
}  // namespace

void* operator new(std::size_t bytes) {
  void* const memory = fails(bytes) ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
// NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDelete): alternative frees of a gtest string look like a double free
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace headgate::http {
namespace {

TEST(ServerFailures, OutOfMemoryForAConnectionKeepsTheListener) {
  Router router;
  router.add("GET", "/", [](const Request&) { return Response{}; });
  TestServer server(std::move(router));
  std::atomic<int> told = 0;
  server.thread().on_loop([&] {
    server.server().tell_trouble([&](const std::string& what) {
      EXPECT_EQ(what, "a connection was not accepted: std::bad_alloc");
      ++told;
    });
  });
  for (const Endpoint& endpoint : {server.unix_endpoint(), server.tcp_endpoint()}) {
    told = 0;
    failing_connections = 1;
    RawClient client(endpoint);
    EXPECT_TRUE(eventually([&] { return told == 1; }));
    EXPECT_EQ(client.read(), "");
    EXPECT_TRUE(client.hung_up());
    const auto next = exchange(endpoint, {.target = "/"}, 20s);
    ASSERT_TRUE(next) << next.error().message;
    EXPECT_EQ(next->status, 200);
  }
  EXPECT_TRUE(eventually([&] { return server.connections() == 0; }));
}

}  // namespace
}  // namespace headgate::http
