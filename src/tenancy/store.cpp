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
    for (std::int64_t step = from; step < kSchemaVersion; ++step) {
      if (auto done = database.run(kSteps[step - 1]); !done) return done;
    }
    return transaction.commit();
  };
  if (tables == 0) {
    if (auto made = database.run(kSchema); !made) return made;
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

// Refuses a number that the field cannot hold: we did not write that row.
template <typename To>
Result<To> narrow(std::int64_t number, const Database& database, const char* what) {
  if (std::in_range<To>(number)) return static_cast<To>(number);
  return fail(ErrorCode::failed,
              "the database " + database.path() + ": " + what + " cannot be " + std::to_string(number),
              "restore a backup, or move the file away");
}

Result<DeviceShare> read_device(const Statement& row, const Database& database) {
  DeviceShare device;
  device.uuid = row.text(0);
  if (const auto limit = row.maybe(1))
    device.memory_limit_bytes = TRY(narrow<std::uint64_t>(*limit, database, "a memory limit"));
  device.host_limit_bytes = TRY(narrow<std::uint64_t>(row.number(2), database, "a host memory limit"));
  device.ceiling_ppm = TRY(narrow<std::uint32_t>(row.number(3), database, "a ceiling"));
  device.guarantee_ppm = TRY(narrow<std::uint32_t>(row.number(4), database, "a guarantee"));
  device.weight = TRY(narrow<std::uint32_t>(row.number(5), database, "a weight"));
  device.priority_class = static_cast<Class>(row.number(6));
  return device;
}

Result<void> read_parts(Database& database, Share& share) {
  Statement devices = TRY(
      Statement::prepare(database,
                         "SELECT uuid, memory_limit_bytes, host_limit_bytes, ceiling_ppm, guarantee_ppm, weight, class "
                         "FROM share_devices WHERE share = ? ORDER BY position"));
  devices.bind(share.name);
  while (TRY(devices.step())) share.devices.push_back(TRY(read_device(devices, database)));
  Statement waits = TRY(Statement::prepare(database, "SELECT oom_wait_s FROM share_waits WHERE share = ?"));
  waits.bind(share.name);
  if (TRY(waits.step())) share.oom_wait = std::chrono::seconds(waits.number(0));
  Statement isolation = TRY(Statement::prepare(database, "SELECT isolation FROM share_isolation WHERE share = ?"));
  isolation.bind(share.name);
  if (TRY(isolation.step())) share.isolation = static_cast<Isolation>(isolation.number(0));
  Statement sliced = TRY(Statement::prepare(database, "SELECT 1 FROM share_time_slices WHERE share = ?"));
  sliced.bind(share.name);
  if (TRY(sliced.step())) share.isolation = Isolation::timeslice;
  Statement oversubscribed = TRY(Statement::prepare(database, "SELECT 1 FROM share_oversubscriptions WHERE share = ?"));
  oversubscribed.bind(share.name);
  share.oversubscribe = TRY(oversubscribed.step());
  Statement members =
      TRY(Statement::prepare(database, "SELECT kind, id FROM share_members WHERE share = ? ORDER BY kind, id"));
  members.bind(share.name);
  while (TRY(members.step())) {
    const auto id = TRY(narrow<std::uint32_t>(members.number(1), database, "a uid or gid"));
    auto& list = members.number(0) == kOwnerGid ? share.owner_gids
                 : members.number(0) == kUser   ? share.users
                                                : share.groups;
    list.push_back(id);
  }
  return {};
}

std::optional<std::int64_t> stored(std::optional<std::chrono::seconds> time) {
  return time ? std::optional(static_cast<std::int64_t>(time->count())) : std::nullopt;
}
std::optional<std::chrono::seconds> seconds(std::optional<std::int64_t> number) {
  return number ? std::optional(std::chrono::seconds(*number)) : std::nullopt;
}
// No card is larger than 2^63 bytes, so a larger limit can be cut to that.
std::int64_t stored(std::uint64_t number) {
  return static_cast<std::int64_t>(std::min<std::uint64_t>(number, ~0ull >> 1));
}

// Prepares a statement that changes something. What is written to a file that is no longer at its path would be lost at
// the next start.
Result<Statement> change(Database& database, const char* sql) {
  if (auto there = database.in_its_place(); !there) return std::unexpected(there.error());
  return Statement::prepare(database, sql);
}

Result<void> put_members(Database& database, const Share& share, MemberKind kind,
                         const std::vector<std::uint32_t>& ids) {
  Statement member = TRY(Statement::prepare(database, "INSERT OR IGNORE INTO share_members VALUES(?, ?, ?)"));
  for (const std::uint32_t id : ids) {
    if (auto put = member.bind(share.name).bind(std::int64_t{kind}).bind(std::int64_t{id}).run(); !put) return put;
  }
  return {};
}

Result<void> put_devices(Database& database, const Share& share) {
  Statement insert = TRY(Statement::prepare(database, "INSERT INTO share_devices VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  std::int64_t position = 0;
  for (const DeviceShare& device : share.devices) {
    insert.bind(share.name).bind(position++).bind(device.uuid);
    insert.bind(device.memory_limit_bytes ? std::optional(stored(*device.memory_limit_bytes)) : std::nullopt);
    insert.bind(stored(device.host_limit_bytes))
        .bind(std::int64_t{device.ceiling_ppm})
        .bind(std::int64_t{device.guarantee_ppm});
    insert.bind(std::int64_t{device.weight}).bind(static_cast<std::int64_t>(device.priority_class));
    if (auto put = insert.run(); !put) return put;
  }
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
  for (const char* pragma : {"PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", "PRAGMA foreign_keys = ON",
                             "PRAGMA trusted_schema = OFF"}) {
    if (auto set = database->run(pragma); !set) return std::unexpected(set.error());
  }
  if (auto ready = migrate(*database); !ready) return std::unexpected(ready.error());
  if (auto made = database->run(kLaterTables); !made) return std::unexpected(made.error());
  database->wait_at_most(kOfALoopMs);
  return Store(std::move(database));
}

Result<void> Store::check() {
  const std::string& path = database_->path();
  constexpr const char* kHint = "the daemon must be able to write this file and its directory (--state)";
  if (auto there = database_->in_its_place(); !there) return there;
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
  Statement row =
      TRY(Statement::prepare(*database_,
                             "SELECT name, owner_uid, fail_policy, over_sell, ttl_s, idle_notice_s, admit, "
                             "created_at_s, everyone, until_empty, freeze_after_s, gang FROM shares ORDER BY name"));
  while (TRY(row.step())) {
    Share share;
    share.name = row.text(0);
    share.owner_uid = TRY(narrow<std::uint32_t>(row.number(1), *database_, "an owner"));
    share.fail_policy = static_cast<ledger::FailPolicy>(row.number(2));
    share.overcommit = row.number(3) != 0;
    share.ttl = seconds(row.maybe(4));
    share.idle_notice = seconds(row.maybe(5));
    share.admit = static_cast<Admit>(row.number(6));
    share.created_at_s = row.number(7);
    share.everyone = row.number(8) != 0;
    share.until_empty = row.number(9) != 0;
    share.freeze_after = seconds(row.maybe(10));
    share.gang = row.text(11);
    if (auto read = read_parts(*database_, share); !read) return std::unexpected(read.error());
    all.push_back(std::move(share));
  }
  return all;
}

Result<void> Store::put(std::span<const Share> shares) {
  Transaction transaction = TRY(Transaction::begin(*database_));
  for (const Share& share : shares) {
    if (auto done = put_rows(share); !done) return done;
  }
  return transaction.commit();
}

// Call it within a transaction.
Result<void> Store::put_rows(const Share& share) {
  const ledger::Command command = TRY(command_of(share.name));
  Statement gone = TRY(change(*database_, "DELETE FROM shares WHERE name = ?"));
  if (auto done = gone.bind(share.name).run(); !done) return done;
  Statement insert =
      TRY(Statement::prepare(*database_, "INSERT INTO shares VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  insert.bind(share.name).bind(std::int64_t{share.owner_uid}).bind(static_cast<std::int64_t>(share.fail_policy));
  insert.bind(std::int64_t{share.overcommit}).bind(stored(share.ttl)).bind(stored(share.idle_notice));
  insert.bind(static_cast<std::int64_t>(share.admit)).bind(share.created_at_s).bind(std::int64_t{share.everyone});
  insert.bind(std::int64_t{share.until_empty}).bind(stored(share.freeze_after)).bind(share.gang);
  if (auto done = insert.run(); !done) return done;
  if (auto done = put_devices(*database_, share); !done) return done;
  if (share.oom_wait) {
    Statement waits = TRY(Statement::prepare(*database_, "INSERT INTO share_waits VALUES(?, ?)"));
    if (auto done = waits.bind(share.name).bind(std::int64_t{share.oom_wait->count()}).run(); !done) return done;
  }
  if (share.isolation == Isolation::mps) {
    Statement isolation = TRY(Statement::prepare(*database_, "INSERT INTO share_isolation VALUES(?, 1)"));
    if (auto done = isolation.bind(share.name).run(); !done) return done;
  }
  if (share.isolation == Isolation::timeslice) {
    Statement noted = TRY(Statement::prepare(*database_, "INSERT INTO share_time_slices VALUES(?)"));
    if (auto done = noted.bind(share.name).run(); !done) return done;
  }
  if (share.oversubscribe) {
    Statement noted = TRY(Statement::prepare(*database_, "INSERT INTO share_oversubscriptions VALUES(?)"));
    if (auto done = noted.bind(share.name).run(); !done) return done;
  }
  if (auto done = put_command(share.name, command); !done) return done;
  if (auto done = put_members(*database_, share, kOwnerGid, share.owner_gids); !done) return done;
  if (auto done = put_members(*database_, share, kUser, share.users); !done) return done;
  return put_members(*database_, share, kGroup, share.groups);
}

Result<void> Store::remove_share(const std::string& name) {
  if (auto forgotten = put_runs(name, {}); !forgotten) return forgotten;
  Statement gone = TRY(change(*database_, "DELETE FROM shares WHERE name = ?"));
  return gone.bind(name).run();
}

// Draining and paused takes a row in a second table, which means nothing without the first. The order of the statements
// lets a kill between two of them leave the old state or the new one.
Result<void> Store::put_command(const std::string& share, ledger::Command command) {
  const bool both = command == ledger::Command::pause_and_drain;
  const auto noted = [&](const char* sql) -> Result<void> {
    Statement statement = TRY(change(*database_, sql));
    return statement.bind(share).run();
  };
  if (command == ledger::Command::run) {
    if (auto done = noted("DELETE FROM share_commands WHERE share = ?"); !done) return done;
    return noted("DELETE FROM share_pauses WHERE share = ?");
  }
  if (auto done =
          noted(both ? "INSERT OR REPLACE INTO share_pauses VALUES(?)" : "DELETE FROM share_pauses WHERE share = ?");
      !done)
    return done;
  Statement insert = TRY(change(*database_, "INSERT OR REPLACE INTO share_commands VALUES(?, ?)"));
  return insert.bind(share).bind(static_cast<std::int64_t>(both ? ledger::Command::drain : command)).run();
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
  while (TRY(row.step()))
    all[row.text(0)].push_back({TRY(narrow<std::uint32_t>(row.number(1), *database_, "a process")),
                                TRY(narrow<std::uint32_t>(row.number(2), *database_, "a start time"))});
  return all;
}

Result<void> Store::put_runs(const std::string& share, const std::vector<Run>& runs) {
  Transaction transaction = TRY(Transaction::begin(*database_));
  Statement gone = TRY(change(*database_, "DELETE FROM share_runs WHERE share = ?"));
  if (auto done = gone.bind(share).run(); !done) return done;
  for (const Run& run : runs) {
    Statement insert = TRY(Statement::prepare(*database_, "INSERT INTO share_runs VALUES(?, ?, ?)"));
    if (auto done = insert.bind(share).bind(std::int64_t{run.pid}).bind(std::int64_t{run.start_time}).run(); !done)
      return done;
  }
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
    quota.subject = static_cast<Quota::Subject>(row.number(0));
    quota.id = TRY(narrow<std::uint32_t>(row.number(1), *database_, "a uid or gid"));
    if (const auto memory = row.maybe(2))
      quota.memory_bytes = TRY(narrow<std::uint64_t>(*memory, *database_, "a memory quota"));
    if (const auto compute = row.maybe(3))
      quota.compute_ppm = TRY(narrow<std::uint64_t>(*compute, *database_, "a compute quota"));
    if (const auto shares = row.maybe(4))
      quota.shares = TRY(narrow<std::uint32_t>(*shares, *database_, "a quota of shares"));
    quota.ttl = seconds(row.maybe(5));
    if (const auto weight = row.maybe(6))
      quota.weight = TRY(narrow<std::uint32_t>(*weight, *database_, "a quota of weight"));
    if (const auto highest = row.maybe(7)) quota.highest_class = static_cast<Class>(*highest);
    all.push_back(quota);
  }
  return all;
}

Result<void> Store::put(const Quota& quota) {
  Transaction transaction = TRY(Transaction::begin(*database_));
  Statement insert = TRY(change(*database_, "INSERT OR REPLACE INTO quotas VALUES(?, ?, ?, ?, ?, ?)"));
  insert.bind(static_cast<std::int64_t>(quota.subject)).bind(std::int64_t{quota.id});
  insert.bind(quota.memory_bytes ? std::optional(stored(*quota.memory_bytes)) : std::nullopt);
  insert.bind(quota.compute_ppm ? std::optional(stored(*quota.compute_ppm)) : std::nullopt);
  insert.bind(quota.shares ? std::optional(std::int64_t{*quota.shares}) : std::nullopt).bind(stored(quota.ttl));
  // Replacing a row deletes its ranks.
  if (auto done = insert.run(); !done) return done;
  if (quota.weight || quota.highest_class) {
    Statement ranks = TRY(Statement::prepare(*database_, "INSERT INTO quota_ranks VALUES(?, ?, ?, ?)"));
    ranks.bind(static_cast<std::int64_t>(quota.subject)).bind(std::int64_t{quota.id});
    ranks.bind(quota.weight ? std::optional(std::int64_t{*quota.weight}) : std::nullopt);
    ranks.bind(quota.highest_class ? std::optional(static_cast<std::int64_t>(*quota.highest_class)) : std::nullopt);
    if (auto done = ranks.run(); !done) return done;
  }
  return transaction.commit();
}

Result<void> Store::remove_quota(Quota::Subject subject, std::uint32_t id) {
  Statement gone = TRY(change(*database_, "DELETE FROM quotas WHERE subject = ? AND id = ?"));
  return gone.bind(static_cast<std::int64_t>(subject)).bind(std::int64_t{id}).run();
}

Result<void> Store::note_removal(const std::string& name, bool begun) {
  Statement note = TRY(change(*database_, begun ? "INSERT OR REPLACE INTO share_removals VALUES(?)"
                                                : "DELETE FROM share_removals WHERE share = ?"));
  return note.bind(name).run();
}

Result<bool> Store::removal_begun(const std::string& name) {
  Statement row = TRY(Statement::prepare(*database_, "SELECT 1 FROM share_removals WHERE share = ?"));
  row.bind(name);
  return row.step();
}

Result<std::map<std::string, std::string>> Store::gpu_policies() {
  std::map<std::string, std::string> all;
  Statement row = TRY(Statement::prepare(*database_, "SELECT uuid, policy FROM gpu_policies"));
  while (TRY(row.step())) all[row.text(0)] = row.text(1);
  return all;
}

Result<void> Store::put_gpu_policy(const std::string& uuid, const std::string& policy) {
  Statement insert = TRY(change(*database_, "INSERT OR REPLACE INTO gpu_policies VALUES(?, ?)"));
  return insert.bind(uuid).bind(policy).run();
}

Result<void> Store::remove_gpu_policy(const std::string& uuid) {
  Statement gone = TRY(change(*database_, "DELETE FROM gpu_policies WHERE uuid = ?"));
  return gone.bind(uuid).run();
}

}  // namespace headgate::tenancy
