#include "tenancy/store.hpp"

#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "guest/ledger/registration.hpp"
#include "tenancy/sqlite.hpp"

namespace headgate::tenancy {
namespace {

// "HGst": distinguishes our file from another program's database (PRAGMA application_id).
constexpr std::int64_t kApplicationId = 0x4847'7374;
constexpr std::int64_t kSchemaVersion = 3;

// How long a change waits for another program that writes. The daemon's loop is blocked meanwhile, and programs at
// tenant sockets wait too. So keep it well below their patience, even for several changes in a row.
constexpr int kOfALoopMs = 25;
static_assert(std::int64_t{kOfALoopMs} * 1'000'000 * 4 <= ledger::kRegistrationNs);

// STRICT: a column holds its type or the row is refused, also if a user edits the file by hand.
constexpr const char* kSchema = R"(
CREATE TABLE shares(
  name TEXT PRIMARY KEY NOT NULL, owner_uid INTEGER NOT NULL, fail_policy INTEGER NOT NULL CHECK(fail_policy IN (0, 1)),
  over_sell INTEGER NOT NULL CHECK(over_sell IN (0, 1)), ttl_s INTEGER CHECK(ttl_s > 0),
  idle_notice_s INTEGER CHECK(idle_notice_s > 0), admit INTEGER NOT NULL CHECK(admit IN (0, 1)),
  created_at_s INTEGER NOT NULL, everyone INTEGER NOT NULL CHECK(everyone IN (0, 1)),
  until_empty INTEGER NOT NULL CHECK(until_empty IN (0, 1))) STRICT;
CREATE TABLE share_devices(
  share TEXT NOT NULL REFERENCES shares(name) ON DELETE CASCADE, position INTEGER NOT NULL, uuid TEXT NOT NULL,
  memory_limit_bytes INTEGER, host_limit_bytes INTEGER NOT NULL, ceiling_ppm INTEGER NOT NULL,
  guarantee_ppm INTEGER NOT NULL, weight INTEGER NOT NULL, class INTEGER NOT NULL CHECK(class BETWEEN 0 AND 2),
  PRIMARY KEY(share, position)) STRICT;
CREATE TABLE share_members(
  share TEXT NOT NULL REFERENCES shares(name) ON DELETE CASCADE, kind INTEGER NOT NULL CHECK(kind BETWEEN 0 AND 2),
  id INTEGER NOT NULL, PRIMARY KEY(share, kind, id)) STRICT;
CREATE TABLE quotas(
  subject INTEGER NOT NULL CHECK(subject BETWEEN 0 AND 2), id INTEGER NOT NULL, memory_bytes INTEGER, compute_ppm INTEGER,
  shares INTEGER, ttl_s INTEGER, PRIMARY KEY(subject, id)) STRICT;
PRAGMA application_id = 1212642164;
PRAGMA user_version = 1;
)";
static_assert(kApplicationId == 1212642164);

// Each step leads from version i + 1 to the next; a new file goes through all of them.
constexpr const char* kSteps[] = {
    "ALTER TABLE shares ADD COLUMN freeze_after_s INTEGER CHECK(freeze_after_s > 0); PRAGMA user_version = 2",
    "ALTER TABLE shares ADD COLUMN gang TEXT NOT NULL DEFAULT ''; PRAGMA user_version = 3",
};
static_assert(std::size(kSteps) + 1 == kSchemaVersion);

// Tables that came later, beside the others: an older headgate leaves alone what it does not know, and their rows go
// with the share's.
constexpr const char* kLaterTables = R"(
CREATE TABLE IF NOT EXISTS share_waits(
  share TEXT PRIMARY KEY NOT NULL REFERENCES shares(name) ON DELETE CASCADE,
  oom_wait_s INTEGER NOT NULL CHECK(oom_wait_s > 0)) STRICT;
CREATE TABLE IF NOT EXISTS share_isolation(
  share TEXT PRIMARY KEY NOT NULL REFERENCES shares(name) ON DELETE CASCADE,
  isolation INTEGER NOT NULL CHECK(isolation = 1)) STRICT;
CREATE TABLE IF NOT EXISTS share_time_slices(
  share TEXT PRIMARY KEY NOT NULL REFERENCES shares(name) ON DELETE CASCADE) STRICT;
CREATE TABLE IF NOT EXISTS share_oversubscriptions(
  share TEXT PRIMARY KEY NOT NULL REFERENCES shares(name) ON DELETE CASCADE) STRICT;
CREATE TABLE IF NOT EXISTS share_removals(share TEXT PRIMARY KEY NOT NULL REFERENCES shares(name) ON DELETE CASCADE) STRICT;
CREATE TABLE IF NOT EXISTS share_runs(
  share TEXT NOT NULL, pid INTEGER NOT NULL, start_time INTEGER NOT NULL, PRIMARY KEY(share, pid)) STRICT;
CREATE TABLE IF NOT EXISTS share_commands(
  share TEXT PRIMARY KEY NOT NULL REFERENCES shares(name) ON DELETE CASCADE,
  command INTEGER NOT NULL CHECK(command IN (1, 2))) STRICT;
CREATE TABLE IF NOT EXISTS share_pauses(share TEXT PRIMARY KEY NOT NULL REFERENCES shares(name) ON DELETE CASCADE) STRICT;
CREATE TABLE IF NOT EXISTS quota_ranks(
  subject INTEGER NOT NULL, id INTEGER NOT NULL, weight INTEGER CHECK(weight BETWEEN 1 AND 1000),
  highest_class INTEGER CHECK(highest_class BETWEEN 0 AND 2), PRIMARY KEY(subject, id),
  FOREIGN KEY(subject, id) REFERENCES quotas(subject, id) ON DELETE CASCADE) STRICT;
CREATE TABLE IF NOT EXISTS gpu_policies(uuid TEXT PRIMARY KEY NOT NULL, policy TEXT NOT NULL) STRICT;
)";

enum MemberKind : std::int64_t { kOwnerGid = 0, kUser = 1, kGroup = 2 };

Result<void> migrate(Database& database) {
  Transaction transaction = TRY(Transaction::begin(database));
  const std::int64_t version = TRY(one_number(database, "PRAGMA user_version"));
  const std::int64_t application = TRY(one_number(database, "PRAGMA application_id"));
  const std::int64_t tables = TRY(one_number(database, "SELECT count(*) FROM sqlite_schema"));
  const auto step_up = [&](std::int64_t from) -> Result<void> {
    for (std::int64_t step = from; step < kSchemaVersion; ++step) TRY(database.run(kSteps[step - 1]));
    return transaction.commit();
  };
  if (tables == 0) {
    TRY(database.run(kSchema));
    return step_up(1);
  }
  if (application != kApplicationId) {
    return fail(ErrorCode::failed, "the database " + database.path() + " is another program's",
                "nothing was changed; name another directory with --state");
  }
  if (version > kSchemaVersion) {
    return fail(ErrorCode::unsupported,
                "the database " + database.path() + " was written by a newer headgate: schema " +
                    std::to_string(version) + ", and this one knows up to " + std::to_string(kSchemaVersion),
                "nothing was changed; install the newer headgate again, or move the file away");
  }
  if (version < 1) {
    return fail(ErrorCode::failed,
                "the database " + database.path() + " has schema " + std::to_string(version) + ", which never was",
                "move the file away, or restore a backup");
  }
  return version == kSchemaVersion ? Result<void>() : step_up(version);
}

Result<void> read_parts(Database& database, Share& share) {
  const auto rows_of = [&](const char* sql) -> Result<Statement> {
    Statement statement = TRY(Statement::prepare(database, sql));
    statement.bind(share.name);
    return statement;
  };
  Statement devices =
      TRY(rows_of("SELECT uuid, memory_limit_bytes, host_limit_bytes, ceiling_ppm, guarantee_ppm, weight, class "
                  "FROM share_devices WHERE share = ? ORDER BY position"));
  while (TRY(devices.step())) {
    DeviceShare& device = share.devices.emplace_back();
    TRY(devices.read(device.uuid, device.memory_limit_bytes, device.host_limit_bytes, device.ceiling_ppm,
                     device.guarantee_ppm, device.weight, device.priority_class));
  }
  Statement members = TRY(rows_of("SELECT kind, id FROM share_members WHERE share = ? ORDER BY kind, id"));
  while (TRY(members.step())) {
    MemberKind kind{};
    std::uint32_t id = 0;
    TRY(members.read(kind, id));
    (kind == kOwnerGid ? share.owner_gids : kind == kUser ? share.users : share.groups).push_back(id);
  }
  return {};
}

// Runs a statement that changes something. What is written to a file that is no longer at its path would be lost at the
// next start.
template <typename... Values>
Result<void> change(Database& database, const char* sql, const Values&... values) {
  TRY(database.in_its_place());
  return execute(database, sql, values...);
}

Result<void> put_members(Database& database, const Share& share, MemberKind kind,
                         const std::vector<std::uint32_t>& ids) {
  Statement member = TRY(Statement::prepare(database, "INSERT OR IGNORE INTO share_members VALUES(?, ?, ?)"));
  for (const std::uint32_t id : ids) TRY(member.bind(share.name, kind, id).run());
  return {};
}

Result<void> put_devices(Database& database, const Share& share) {
  Statement insert = TRY(Statement::prepare(database, "INSERT INTO share_devices VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  int position = 0;
  for (const DeviceShare& device : share.devices)
    TRY(insert
            .bind(share.name, position++, device.uuid, device.memory_limit_bytes, device.host_limit_bytes,
                  device.ceiling_ppm, device.guarantee_ppm, device.weight, device.priority_class)
            .run());
  return {};
}

}  // namespace

Store::Store(std::unique_ptr<Database> database) : database_(std::move(database)) {}
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;
Store::~Store() = default;

Result<Store> Store::open(const std::string& path) {
  auto database = std::make_unique<Database>(TRY(Database::open(path)));
  // A write-ahead log needs a file beside the database; a power cut loses nothing that was reported as done.
  TRY(
      database->run("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; "
                    "PRAGMA trusted_schema = OFF"));
  TRY(migrate(*database));
  TRY(database->run(kLaterTables));
  database->wait_at_most(kOfALoopMs);
  return Store(std::move(database));
}

Result<void> Store::check() {
  const std::string& path = database_->path();
  constexpr const char* kHint = "the daemon must be able to write this file and its directory (--state)";
  TRY(database_->in_its_place());
  if (::access(path.c_str(), R_OK | W_OK) != 0) return fail_errno("the database " + path, errno, kHint);
  struct statvfs room{};
  constexpr std::uint64_t kMinRoom = 1 << 20;
  if (::statvfs(path.c_str(), &room) == 0 && std::uint64_t{room.f_bavail} * room.f_frsize < kMinRoom)
    return fail(ErrorCode::no_capacity, "the database " + path + ": its disk is full", "make room on its file system");
  database_->wait_at_most(0);
  const auto transaction = Transaction::begin(*database_);
  database_->wait_at_most(kOfALoopMs);
  return transaction ? Result<void>() : std::unexpected(transaction.error());
}

Result<std::vector<Share>> Store::shares() {
  std::vector<Share> all;
  Statement row = TRY(Statement::prepare(*database_,
                                         "SELECT name, owner_uid, fail_policy, over_sell, ttl_s, idle_notice_s, admit, "
                                         "created_at_s, everyone, until_empty, freeze_after_s, gang, "
                                         "(SELECT oom_wait_s FROM share_waits WHERE share = name), "
                                         "EXISTS(SELECT 1 FROM share_oversubscriptions WHERE share = name), "
                                         "CASE WHEN EXISTS(SELECT 1 FROM share_time_slices WHERE share = name) THEN 2 "
                                         "ELSE EXISTS(SELECT 1 FROM share_isolation WHERE share = name) END "
                                         "FROM shares ORDER BY name"));
  while (TRY(row.step())) {
    Share share;
    TRY(row.read(share.name, share.owner_uid, share.fail_policy, share.overcommit, share.ttl, share.idle_notice,
                 share.admit, share.created_at_s, share.everyone, share.until_empty, share.freeze_after, share.gang,
                 share.oom_wait, share.oversubscribe, share.isolation));
    TRY(read_parts(*database_, share));
    all.push_back(std::move(share));
  }
  return all;
}

Result<void> Store::put(std::span<const Share> shares) {
  Transaction transaction = TRY(Transaction::begin(*database_));
  for (const Share& share : shares) TRY(put_rows(share));
  return transaction.commit();
}

// Call it within a transaction.
Result<void> Store::put_rows(const Share& share) {
  const ledger::Command command = TRY(command_of(share.name));
  TRY(change(*database_, "DELETE FROM shares WHERE name = ?", share.name));
  TRY(execute(*database_, "INSERT INTO shares VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", share.name, share.owner_uid,
              share.fail_policy, share.overcommit, share.ttl, share.idle_notice, share.admit, share.created_at_s,
              share.everyone, share.until_empty, share.freeze_after, share.gang));
  TRY(put_devices(*database_, share));
  if (share.oom_wait) TRY(execute(*database_, "INSERT INTO share_waits VALUES(?, ?)", share.name, share.oom_wait));
  if (share.isolation == Isolation::mps)
    TRY(execute(*database_, "INSERT INTO share_isolation VALUES(?, 1)", share.name));
  if (share.isolation == Isolation::timeslice)
    TRY(execute(*database_, "INSERT INTO share_time_slices VALUES(?)", share.name));
  if (share.oversubscribe) TRY(execute(*database_, "INSERT INTO share_oversubscriptions VALUES(?)", share.name));
  TRY(put_command(share.name, command));
  TRY(put_members(*database_, share, kOwnerGid, share.owner_gids));
  TRY(put_members(*database_, share, kUser, share.users));
  return put_members(*database_, share, kGroup, share.groups);
}

Result<void> Store::remove_share(const std::string& name) {
  TRY(put_runs(name, {}));
  return change(*database_, "DELETE FROM shares WHERE name = ?", name);
}

// Draining and paused takes a row in a second table, which means nothing without the first. The order of the statements
// lets a kill between two of them leave the old state or the new one.
Result<void> Store::put_command(const std::string& share, ledger::Command command) {
  const bool both = command == ledger::Command::pause_and_drain;
  if (command == ledger::Command::run) TRY(change(*database_, "DELETE FROM share_commands WHERE share = ?", share));
  TRY(change(*database_,
             both ? "INSERT OR REPLACE INTO share_pauses VALUES(?)" : "DELETE FROM share_pauses WHERE share = ?",
             share));
  if (command == ledger::Command::run) return {};
  return change(*database_, "INSERT OR REPLACE INTO share_commands VALUES(?, ?)", share,
                both ? ledger::Command::drain : command);
}

Result<ledger::Command> Store::command_of(const std::string& share) {
  Statement row = TRY(Statement::prepare(*database_,
                                         "SELECT command, EXISTS(SELECT 1 FROM share_pauses p WHERE p.share = c.share) "
                                         "FROM share_commands c WHERE share = ?"));
  row.bind(share);
  if (!TRY(row.step())) return ledger::Command::run;
  const auto command = static_cast<ledger::Command>(row.number(0));
  return row.number(1) != 0 && command == ledger::Command::drain ? ledger::Command::pause_and_drain : command;
}

Result<std::map<std::string, std::vector<Run>>> Store::runs() {
  std::map<std::string, std::vector<Run>> all;
  Statement row = TRY(Statement::prepare(*database_, "SELECT share, pid, start_time FROM share_runs"));
  while (TRY(row.step())) {
    std::string share;
    Run run;
    TRY(row.read(share, run.pid, run.start_time));
    all[share].push_back(run);
  }
  return all;
}

Result<void> Store::put_runs(const std::string& share, const std::vector<Run>& runs) {
  Transaction transaction = TRY(Transaction::begin(*database_));
  TRY(change(*database_, "DELETE FROM share_runs WHERE share = ?", share));
  for (const Run& run : runs)
    TRY(execute(*database_, "INSERT INTO share_runs VALUES(?, ?, ?)", share, run.pid, run.start_time));
  return transaction.commit();
}

Result<std::vector<Quota>> Store::quotas() {
  std::vector<Quota> all;
  Statement row =
      TRY(Statement::prepare(*database_,
                             "SELECT subject, id, memory_bytes, compute_ppm, shares, ttl_s, weight, highest_class "
                             "FROM quotas LEFT JOIN quota_ranks USING(subject, id) ORDER BY subject, id"));
  while (TRY(row.step())) {
    Quota quota;
    TRY(row.read(quota.subject, quota.id, quota.memory_bytes, quota.compute_ppm, quota.shares, quota.ttl, quota.weight,
                 quota.highest_class));
    all.push_back(quota);
  }
  return all;
}

Result<void> Store::put(const Quota& quota) {
  Transaction transaction = TRY(Transaction::begin(*database_));
  // Replacing a row deletes its ranks.
  TRY(change(*database_, "INSERT OR REPLACE INTO quotas VALUES(?, ?, ?, ?, ?, ?)", quota.subject, quota.id,
             quota.memory_bytes, quota.compute_ppm, quota.shares, quota.ttl));
  if (quota.weight || quota.highest_class)
    TRY(execute(*database_, "INSERT INTO quota_ranks VALUES(?, ?, ?, ?)", quota.subject, quota.id, quota.weight,
                quota.highest_class));
  return transaction.commit();
}

Result<void> Store::remove_quota(Quota::Subject subject, std::uint32_t id) {
  return change(*database_, "DELETE FROM quotas WHERE subject = ? AND id = ?", subject, id);
}

Result<void> Store::note_removal(const std::string& name, bool begun) {
  return change(
      *database_,
      begun ? "INSERT OR REPLACE INTO share_removals VALUES(?)" : "DELETE FROM share_removals WHERE share = ?", name);
}

Result<bool> Store::removal_begun(const std::string& name) {
  Statement row = TRY(Statement::prepare(*database_, "SELECT 1 FROM share_removals WHERE share = ?"));
  row.bind(name);
  return row.step();
}

Result<std::map<std::string, std::string>> Store::gpu_policies() {
  std::map<std::string, std::string> all;
  Statement row = TRY(Statement::prepare(*database_, "SELECT uuid, policy FROM gpu_policies"));
  while (TRY(row.step())) {
    std::string uuid, policy;
    TRY(row.read(uuid, policy));
    all[uuid] = policy;
  }
  return all;
}

Result<void> Store::put_gpu_policy(const std::string& uuid, const std::string& policy) {
  return change(*database_, "INSERT OR REPLACE INTO gpu_policies VALUES(?, ?)", uuid, policy);
}

Result<void> Store::remove_gpu_policy(const std::string& uuid) {
  return change(*database_, "DELETE FROM gpu_policies WHERE uuid = ?", uuid);
}

}  // namespace headgate::tenancy
