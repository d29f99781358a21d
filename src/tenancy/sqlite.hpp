// Owning wrappers of SQLite's handles. Only for the sources of the two stores.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace headgate::tenancy {

// How long a statement waits for another program that writes, on a thread that may block.
inline constexpr int kBusyTimeoutMs = 1000;

// One connection. Not thread-safe.
class Database {
 public:
  // Opens or creates the file, 0600. Errors name the file, and say what to do about a full disk, a corrupt file,
  // missing rights.
  [[nodiscard]] static Result<Database> open(const std::string& path);
  Database(Database&& other) noexcept : path_(std::move(other.path_)), handle_(std::exchange(other.handle_, nullptr)) {}
  Database& operator=(Database&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Database() { ::sqlite3_close(handle_); }

  // Replaces kBusyTimeoutMs.
  void wait_at_most(int milliseconds) { ::sqlite3_busy_timeout(handle_, milliseconds); }

  [[nodiscard]] Result<void> run(const char* sql);
  [[nodiscard]] Error error() const;  // of the last call; busy if another program holds the file
  // Checks that the file is still at its path. SQLite goes on writing to a file that was removed or replaced, and the
  // next start does not find it. Errors: denied.
  [[nodiscard]] Result<void> in_its_place();
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] sqlite3* handle() { return handle_; }

 private:
  Database(std::string path, sqlite3* handle) : path_(std::move(path)), handle_(handle) {}

  std::string path_;
  sqlite3* handle_;
};

// One prepared statement; parameters are bound in order, columns read in order.
class Statement {
 public:
  [[nodiscard]] static Result<Statement> prepare(Database& database, const char* sql);
  Statement(Statement&& other) noexcept
      : database_(other.database_), handle_(std::exchange(other.handle_, nullptr)), bound_(other.bound_) {}
  Statement& operator=(Statement&&) = delete;
  ~Statement() { ::sqlite3_finalize(handle_); }

  // The text must outlive the next step().
  Statement& bind(std::string_view text);
  Statement& bind(std::int64_t number);
  Statement& bind(std::optional<std::int64_t> number);

  // Returns true if there is a row, false if done.
  [[nodiscard]] Result<bool> step();
  // For statements that return no rows; other parameters can be bound afterwards.
  [[nodiscard]] Result<void> run();

  [[nodiscard]] std::string text(int column) const;
  [[nodiscard]] std::int64_t number(int column) const { return ::sqlite3_column_int64(handle_, column); }
  [[nodiscard]] std::optional<std::int64_t> maybe(int column) const;

 private:
  Statement(Database& database, sqlite3_stmt* handle) : database_(&database), handle_(handle) {}

  Database* database_;
  sqlite3_stmt* handle_;
  int bound_ = 0;
};

// Rolled back unless committed. Takes the write lock at once, so that a second daemon fails here with a clear error.
class Transaction {
 public:
  [[nodiscard]] static Result<Transaction> begin(Database& database);
  Transaction(Transaction&& other) noexcept : database_(std::exchange(other.database_, nullptr)) {}
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();
  [[nodiscard]] Result<void> commit();

 private:
  explicit Transaction(Database& database) : database_(&database) {}

  Database* database_;
};

// Returns the number that a statement gives: a PRAGMA, a count. Errors: failed, if it gives none.
[[nodiscard]] Result<std::int64_t> one_number(Database& database, const char* sql);

}  // namespace headgate::tenancy
