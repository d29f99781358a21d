// Exposes the loop's Asio context to rooms with their own coroutines. The only header of http/ that includes Boost.
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
  boost::asio::io_context context{1};  // run by a single thread
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work{context.get_executor()};
};

inline boost::asio::io_context& context_of(Loop& loop) { return loop.impl().context; }

// Completion as a tuple that starts with the error: a disconnect is a value, not an exception.
inline constexpr auto kAwait = boost::asio::as_tuple(boost::asio::use_awaitable);

// Describes the exception that ended a detached coroutine; empty if it ended normally. Use it as the completion
// handler, because `detached` drops exceptions.
[[nodiscard]] std::string what_ended(const std::exception_ptr& thrown);

}  // namespace headgate::http
