// Owning wrappers of SQLite's handles. Only for the sources of the two stores.
#pragma once

#include <sqlite3.h>

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/result.hpp"

namespace headgate::tenancy {

// How long a statement waits for another program that writes, on a thread that may block.
inline constexpr int kBusyTimeoutMs = 1000;

// Owns a handle, which `close` takes.
template <auto close>
struct Closer {
  void operator()(auto* handle) const { close(handle); }
};
template <typename Handle, auto close>
using Owned = std::unique_ptr<Handle, Closer<close>>;

// One connection. Not thread-safe.
class Database {
 public:
  // Opens or creates the file, 0600. Errors name the file, and say what to do about a full disk, a corrupt file,
  // missing rights.
  [[nodiscard]] static Result<Database> open(const std::string& path);

  // Replaces kBusyTimeoutMs.
  void wait_at_most(int milliseconds) { ::sqlite3_busy_timeout(handle(), milliseconds); }

  [[nodiscard]] Result<void> run(const char* sql);
  [[nodiscard]] Error error() const;  // of the last call; busy if another program holds the file
  // Checks that the file is still at its path. SQLite goes on writing to a file that was removed or replaced, and the
  // next start does not find it. Errors: denied.
  [[nodiscard]] Result<void> in_its_place();
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] sqlite3* handle() const { return handle_.get(); }

 private:
  Database(std::string path, sqlite3* handle) : path_(std::move(path)), handle_(handle) {}

  std::string path_;
  Owned<sqlite3, ::sqlite3_close> handle_;
};

// One prepared statement. Its values are texts, numbers, bools, enumerations, seconds, and optionals of these (NULL).
class Statement {
 public:
  [[nodiscard]] static Result<Statement> prepare(Database& database, const char* sql);

  // Binds the next parameters. Texts must outlive the next step(). A number above SQLite's 2^63 - 1 is cut to that.
  template <typename... Values>
  Statement& bind(const Values&... values) {
    (bind_next(values), ...);
    return *this;
  }

  // Returns true if there is a row, false if done.
  [[nodiscard]] Result<bool> step();
  // For statements that return no rows; other parameters can be bound afterwards.
  [[nodiscard]] Result<void> run();

  // Reads the row's first columns. Errors: failed, with the column's name, for a number that the value cannot hold: we
  // did not write that row.
  template <typename... Values>
  [[nodiscard]] Result<void> read(Values&... values) const {
    int column = 0;
    Result<void> result;
    static_cast<void>(((result = read_column(column++, values)).has_value() && ...));
    return result;
  }
  [[nodiscard]] std::int64_t number(int column) const { return ::sqlite3_column_int64(handle_.get(), column); }

 private:
  Statement(Database& database, sqlite3_stmt* handle) : database_(&database), handle_(handle) {}

  void bind_next(std::string_view text);
  void bind_next(std::int64_t number) { ::sqlite3_bind_int64(handle_.get(), ++bound_, number); }
  void bind_next(std::chrono::seconds time) { bind_next(std::int64_t{time.count()}); }
  template <typename Value>
    requires std::is_integral_v<Value> || std::is_enum_v<Value>
  void bind_next(Value value) {
    if constexpr (std::same_as<Value, std::uint64_t>) value = std::min(value, ~Value{0} >> 1);
    bind_next(static_cast<std::int64_t>(value));
  }
  template <typename Value>
  void bind_next(const std::optional<Value>& value) {
    if (value) bind_next(*value);
    else ::sqlite3_bind_null(handle_.get(), ++bound_);
  }

  Result<void> read_column(int column, std::string& text) const;
  Result<void> read_column(int column, std::chrono::seconds& time) const {
    time = std::chrono::seconds(number(column));
    return {};
  }
  template <typename Value>
    requires std::is_integral_v<Value> || std::is_enum_v<Value>
  Result<void> read_column(int column, Value& value) const {
    if constexpr (std::is_integral_v<Value> && !std::same_as<Value, bool>)
      if (!std::in_range<Value>(number(column))) return refuse_number(column);
    value = static_cast<Value>(number(column));
    return {};
  }
  template <typename Value>
  Result<void> read_column(int column, std::optional<Value>& value) const {
    value.reset();
    if (::sqlite3_column_type(handle_.get(), column) == SQLITE_NULL) return {};
    return read_column(column, value.emplace());
  }
  [[nodiscard]] std::unexpected<Error> refuse_number(int column) const;

  Database* database_;
  Owned<sqlite3_stmt, ::sqlite3_finalize> handle_;
  int bound_ = 0;
};

// Runs a statement that returns no rows.
template <typename... Values>
[[nodiscard]] Result<void> execute(Database& database, const char* sql, const Values&... values) {
  Statement statement = TRY(Statement::prepare(database, sql));
  return statement.bind(values...).run();
}

// Returns SQLite's code.
int roll_back(Database* database);

// Rolled back unless committed. Takes the write lock at once, so that a second daemon fails here with a clear error.
class Transaction {
 public:
  [[nodiscard]] static Result<Transaction> begin(Database& database);
  [[nodiscard]] Result<void> commit();

 private:
  explicit Transaction(Database& database) : open_(&database) {}

  Owned<Database, roll_back> open_;
};

// Returns the number that a statement gives: a PRAGMA, a count. Errors: failed, if it gives none.
[[nodiscard]] Result<std::int64_t> one_number(Database& database, const char* sql);

}  // namespace headgate::tenancy
