#include "tenancy/sqlite.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "base/owned_file.hpp"
#include "base/unique_fd.hpp"

namespace headgate::tenancy {
namespace {

Error sqlite_error(const std::string& path, int code, const char* words) {
  const std::string message = "the database " + path + ": " + words;
  switch (code & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return {ErrorCode::failed, message,
              "it is left as it is; move it away to begin with an empty one, or restore a backup"};
    case SQLITE_FULL: return {ErrorCode::no_capacity, message, "nothing was changed; make room on its file system"};
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_CANTOPEN:
    case SQLITE_AUTH:
      return {ErrorCode::denied, message,
              "nothing was changed; the daemon must be able to write this file and its directory (--state)"};
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return {ErrorCode::busy, message,
              "nothing was changed; another program holds it: try again when that has ended. Is a second headgated "
              "running with the same --state?"};
    default: return {ErrorCode::failed, message, "nothing was changed"};
  }
}

}  // namespace

Result<Database> Database::open(const std::string& path) {
  // Create the file here so that no other user can read it: SQLite would apply only the umask.
  const UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file && errno == ELOOP)
    return fail(ErrorCode::denied, "the database " + path + ": it is a symbolic link, which others may have put there",
                "put the file itself there, or name its directory (--state)");
  struct stat facts{};
  if (file && ::fstat(file.get(), &facts) == 0) TRY(check_owned(path, facts));
  if (!file) {
    return fail_errno("the database " + path, errno,
                      "the daemon must be able to write this file and its directory (--state)");
  }
  sqlite3* handle = nullptr;
  const int code = ::sqlite3_open_v2(path.c_str(), &handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOFOLLOW, nullptr);
  Database database(path, handle);
  if (code != SQLITE_OK)
    return std::unexpected(handle != nullptr ? database.error() : sqlite_error(path, code, ::sqlite3_errstr(code)));
  ::sqlite3_extended_result_codes(handle, 1);
  database.wait_at_most(kBusyTimeoutMs);
  return database;
}

Error Database::error() const {
  return sqlite_error(path_, ::sqlite3_errcode(handle_.get()), ::sqlite3_errmsg(handle_.get()));
}

Result<void> Database::run(const char* sql) {
  if (::sqlite3_exec(handle_.get(), sql, nullptr, nullptr, nullptr) != SQLITE_OK) return std::unexpected(error());
  return {};
}

Result<void> Database::in_its_place() {
  int moved = 0;
  if (::sqlite3_file_control(handle_.get(), "main", SQLITE_FCNTL_HAS_MOVED, &moved) != SQLITE_OK || moved == 0)
    return {};
  return fail(ErrorCode::denied, "the database " + path_ + " was removed or replaced by another file",
              "nothing was changed; put it back where it was, or restart headgated: what is made until then would be "
              "lost with the next start");
}

Result<Statement> Statement::prepare(Database& database, const char* sql) {
  sqlite3_stmt* handle = nullptr;
  if (::sqlite3_prepare_v2(database.handle(), sql, -1, &handle, nullptr) != SQLITE_OK)
    return std::unexpected(database.error());
  return Statement(database, handle);
}

// A bind that fails leaves NULL, which the tables' NOT NULL refuses at step().
void Statement::bind_next(std::string_view text) {
  ::sqlite3_bind_text(handle_.get(), ++bound_, text.data(), static_cast<int>(text.size()), SQLITE_STATIC);
}

Result<bool> Statement::step() {
  const int code = ::sqlite3_step(handle_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return std::unexpected(database_->error());
}

Result<void> Statement::run() {
  TRY(step());
  ::sqlite3_reset(handle_.get());
  bound_ = 0;
  return {};
}

Result<void> Statement::read_column(int column, std::string& text) const {
  const auto* bytes = reinterpret_cast<const char*>(::sqlite3_column_text(handle_.get(), column));
  text.assign(bytes == nullptr ? "" : bytes, static_cast<std::size_t>(::sqlite3_column_bytes(handle_.get(), column)));
  return {};
}

std::unexpected<Error> Statement::refuse_number(int column) const {
  return fail(ErrorCode::failed,
              "the database " + database_->path() + ": " + ::sqlite3_column_name(handle_.get(), column) +
                  " cannot be " + std::to_string(number(column)),
              "restore a backup, or move the file away");
}

Result<Transaction> Transaction::begin(Database& database) {
  TRY(database.run("BEGIN IMMEDIATE"));
  return Transaction(database);
}

int roll_back(Database* database) { return ::sqlite3_exec(database->handle(), "ROLLBACK", nullptr, nullptr, nullptr); }

Result<void> Transaction::commit() {
  TRY(open_->run("COMMIT"));
  static_cast<void>(open_.release());
  return {};
}

Result<std::int64_t> one_number(Database& database, const char* sql) {
  Statement statement = TRY(Statement::prepare(database, sql));
  if (!TRY(statement.step()))
    return fail(ErrorCode::failed, "the database " + database.path() + " does not answer " + sql);
  return statement.number(0);
}

}  // namespace headgate::tenancy
