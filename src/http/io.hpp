// The loop's Asio context, for rooms that run their own coroutines on it. The only header of http/ with Boost in it.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <string>

#include "http/loop.hpp"

namespace headgate::http {

struct Loop::Impl {
  boost::asio::io_context context{1};  // 1: one thread runs it
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work{context.get_executor()};
};

inline boost::asio::io_context& context_of(Loop& loop) { return loop.impl().context; }

// Completion as a tuple whose first element is the error: a hang-up is a value, not an exception.
inline constexpr auto kAwait = boost::asio::as_tuple(boost::asio::use_awaitable);

// For the completion handler of a coroutine that nobody waits for: with `detached` its exceptions are nobody's. Empty
// where it ended as it should.
[[nodiscard]] std::string what_ended(const std::exception_ptr& thrown);

}  // namespace headgate::http
