#include "tenancy/event_store.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "tenancy/sqlite.hpp"

namespace headgate::tenancy {
namespace {

using Time = std::chrono::system_clock::time_point;

// "HGev": distinguishes our file from another program's database (PRAGMA application_id).
constexpr std::int64_t kEventApplicationId = 0x4847'6576;
constexpr std::int64_t kEventSchemaVersion = 1;
constexpr std::size_t kNewest = 4096;  // events of former daemons that a new one's log begins with
constexpr std::size_t kMaxAtOnce = 1024;
constexpr std::size_t kMaxUnanswered = 256;  // questions of a user, before checking which of them still wait
constexpr std::chrono::seconds kRetry(1);
constexpr std::chrono::minutes kAgeEvery(10);

constexpr const char* kEventSchema = R"(
CREATE TABLE events(
  id INTEGER PRIMARY KEY, unix_ns INTEGER NOT NULL, kind TEXT NOT NULL, severity TEXT NOT NULL, share TEXT NOT NULL,
  uuid TEXT NOT NULL, pid INTEGER NOT NULL, uid INTEGER NOT NULL, owner_uid INTEGER, text TEXT NOT NULL) STRICT;
CREATE INDEX events_of_share ON events(share, id);
CREATE TABLE gaps(after INTEGER NOT NULL, until INTEGER NOT NULL) STRICT;
PRAGMA application_id = 1212638582;
PRAGMA user_version = 1;
)";
static_assert(kEventApplicationId == 1212638582);

constexpr const char* kColumns = "id, unix_ns, kind, severity, share, uuid, pid, uid, owner_uid, text";

std::int64_t unix_ns(Time time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

Result<void> make_or_check(Database& database) {
  Transaction transaction = TRY(Transaction::begin(database));
  const std::int64_t version = TRY(one_number(database, "PRAGMA user_version"));
  const std::int64_t application = TRY(one_number(database, "PRAGMA application_id"));
  if (TRY(one_number(database, "SELECT count(*) FROM sqlite_schema")) == 0) {
    TRY(database.run(kEventSchema));
    return transaction.commit();
  }
  if (application == kEventApplicationId && version == kEventSchemaVersion) return {};
  return fail(
      ErrorCode::unsupported,
      "the database " + database.path() +
          (application == kEventApplicationId ? " was written by another headgate: schema " + std::to_string(version)
                                              : " is another program's"),
      "nothing was changed; move the file away to begin a new one");
}

Result<snapshot::Event> event_of(const Statement& row) {
  snapshot::Event event;
  TRY(row.read(event.sequence, event.unix_ns, event.kind, event.severity, event.share, event.uuid, event.pid, event.uid,
               event.owner_uid, event.text));
  return event;
}

Result<EventStore::Former> read_former(Database& database, Time now) {
  EventStore::Former former;
  Statement gaps = TRY(Statement::prepare(database, "SELECT after, until FROM gaps ORDER BY after"));
  while (TRY(gaps.step())) {
    auto& gap = former.gaps.emplace_back();
    TRY(gaps.read(gap.after, gap.until));
  }
  Statement row = TRY(Statement::prepare(
      database, ("SELECT " + std::string(kColumns) + " FROM events ORDER BY id DESC LIMIT ?").c_str()));
  row.bind(kNewest);
  while (TRY(row.step())) former.events.push_back(TRY(event_of(row)));
  std::ranges::reverse(former.events);
  std::uint64_t last = former.events.empty() ? 0 : former.events.back().sequence;
  if (!former.gaps.empty()) last = std::max(last, former.gaps.back().until);
  const auto by_clock =
      std::max<std::int64_t>(0, std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count());
  former.last = std::max(last, static_cast<std::uint64_t>(by_clock));
  if (former.events.empty()) former.gaps = {{0, former.last}};
  else if (former.last > last) former.gaps.push_back({last, former.last});
  return former;
}

Result<void> note_gap(Database& database, const EventStore::Former& former) {
  Transaction transaction = TRY(Transaction::begin(database));
  // No reader needs a gap below everything that is kept.
  TRY(database.run("DELETE FROM gaps WHERE until < coalesce((SELECT min(id) FROM events), until + 1)"));
  if (!former.gaps.empty())
    TRY(execute(database, "INSERT INTO gaps SELECT ?1, ?2 WHERE NOT EXISTS (SELECT 1 FROM gaps WHERE until = ?2)",
                former.gaps.back().after, former.gaps.back().until));
  return transaction.commit();
}

}  // namespace

bool EventQuery::matches(const snapshot::Event& event) const {
  return event.sequence > after && event.unix_ns >= since_unix_ns && (share.empty() || event.share == share) &&
         event.kind.starts_with(kind);
}

EventStore::EventStore(std::unique_ptr<Database> database, EventBounds bounds, Clock clock)
    : database_(std::move(database)), bounds_(bounds), clock_(std::move(clock)) {}

Result<std::unique_ptr<EventStore>> EventStore::open(const std::string& path, EventBounds bounds, Clock clock) {
  const Time now = clock();
  auto database = std::make_unique<Database>(TRY(Database::open(path)));
  // Not synchronous at each commit: a power cut may lose the last moments' events, which were streamed as they came; a
  // kill loses nothing.
  TRY(
      database->run("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA trusted_schema = OFF; "
                    "PRAGMA journal_size_limit = 4194304"));
  TRY(make_or_check(*database));
  std::unique_ptr<EventStore> store(new EventStore(std::move(database), bounds, std::move(clock)));
  TRY(store->forget_old(now));
  store->former_ = TRY(read_former(*store->database_, now));
  TRY(store->count_rows());
  store->rows_on_disk_ = store->row_count_;
  TRY(note_gap(*store->database_, store->former_));
  store->thread_ = std::thread([raw = store.get()] { raw->work(); });
  return store;
}

EventStore::~EventStore() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void EventStore::tell_trouble(Trouble trouble) {
  const std::scoped_lock lock(mutex_);
  trouble_ = std::move(trouble);
}

bool EventStore::is_writing() const {
  const std::scoped_lock lock(mutex_);
  return !failing_;
}

void EventStore::add(const snapshot::Event& event) {
  const std::scoped_lock lock(mutex_);
  if (stopping_) return;
  waiting_.push_back(event);
  if (waiting_.size() > kMaxWaiting) {
    waiting_.pop_front();
    ++lost_;
  }
  wake_.notify_all();
}

void EventStore::read(EventQuery query, std::size_t most, std::function<bool(const snapshot::Event&)> wanted,
                      Asker asker, Answer answer) {
  const std::scoped_lock lock(mutex_);
  if (stopping_) return;
  const std::size_t own =
      questions_.add(asker.uid, {std::move(query), most, std::move(wanted), std::move(asker.waits), std::move(answer)});
  // A user may keep asking and disconnecting, faster than questions are answered.
  if (own >= kMaxUnanswered && std::has_single_bit(own))
    questions_.drop(asker.uid, [](const Question& question) { return !question.waits(); });
  wake_.notify_all();
}

void EventStore::work() {
  std::unique_lock lock(mutex_);
  std::chrono::steady_clock::time_point retry_at{};
  for (;;) {
    const bool may_write = !failing_ || std::chrono::steady_clock::now() >= retry_at || stopping_;
    if (!waiting_.empty() && may_write) {
      std::deque<snapshot::Event> batch;
      for (std::size_t i = 0; i < kMaxAtOnce && !waiting_.empty(); ++i) {
        batch.push_back(std::move(waiting_.front()));
        waiting_.pop_front();
      }
      lock.unlock();
      write(std::move(batch));
      lock.lock();
      retry_at = std::chrono::steady_clock::now() + kRetry;
      if (failing_ && stopping_) return;
    } else if (stopping_) {
      return;
    } else if (const auto question = questions_.next()) {
      lock.unlock();
      if (question->waits()) question->answer(rows_of(*question));
      lock.lock();
    } else if (failing_) {
      wake_.wait_for(lock, kRetry);
    } else {
      wake_.wait(lock);
    }
  }
}

void EventStore::write(std::deque<snapshot::Event> batch) {
  const auto written = write_rows(batch, clock_());
  if (!written) return put_back(std::move(batch), written.error());
  rows_on_disk_ = row_count_;
  Trouble tell;
  std::uint64_t lost = 0;
  {
    const std::scoped_lock lock(mutex_);
    if (!std::exchange(failing_, false) && lost_ == 0) return;  // a slow disk loses events too
    tell = trouble_;
    lost = std::exchange(lost_, 0);
  }
  if (tell) tell(std::nullopt, lost);
}

void EventStore::put_back(std::deque<snapshot::Event> batch, const Error& error) {
  counted_ = false;
  Trouble tell;
  {
    const std::scoped_lock lock(mutex_);
    waiting_.insert(waiting_.begin(), std::make_move_iterator(batch.begin()), std::make_move_iterator(batch.end()));
    for (; waiting_.size() > kMaxWaiting; ++lost_) waiting_.pop_front();
    if (!std::exchange(failing_, true)) tell = trouble_;
  }
  if (tell) tell(error, 0);
}

Result<void> EventStore::count_rows() {
  rows_.clear();
  groups_.clear();
  row_count_ = 0;
  const std::string sql = "SELECT share, " + std::string(snapshot::kFindingInSql) + ", " + snapshot::kOwnerInSql +
                          ", count(*) FROM events GROUP BY 1, 2, 3";
  Statement row = TRY(Statement::prepare(*database_, sql.c_str()));
  while (TRY(row.step())) {
    std::string share;
    snapshot::EventGroup group;
    std::size_t rows = 0;
    TRY(row.read(share, group.finding, group.owner, rows));
    row_count_ += rows;
    groups_[group] += rows;
    if (!group.finding) rows_[share] += rows;
  }
  counted_ = true;
  return {};
}

Result<void> EventStore::write_rows(const std::deque<snapshot::Event>& batch, Time now) {
  Transaction transaction = TRY(Transaction::begin(*database_));
  if (!counted_) TRY(count_rows());
  Statement insert =
      TRY(Statement::prepare(*database_, "INSERT OR REPLACE INTO events VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"));
  for (const auto& event : batch) {
    TRY(insert
            .bind(event.sequence, event.unix_ns, event.kind, event.severity, event.share, event.uuid, event.pid,
                  event.uid, event.owner_uid, event.text)
            .run());
    const auto group = snapshot::group_of(event);
    ++groups_[group];
    if (!group.finding) ++rows_[event.share];
    ++row_count_;
  }
  TRY(keep_bounds(now));
  return transaction.commit();
}

Result<void> EventStore::keep_bounds(Time now) {
  if (now - aged_at_ >= kAgeEvery || now < aged_at_) {
    TRY(forget_old(now));
    TRY(count_rows());
  }
  TRY(bound_shares());
  return row_count_ > bounds_.rows ? bound_owners() : Result<void>();
}

Result<void> EventStore::bound_shares() {
  const std::size_t part = std::max<std::size_t>(1, bounds_.rows / kPart);
  const std::string sql = "DELETE FROM events WHERE id IN (SELECT id FROM events WHERE share = ? AND NOT " +
                          std::string(snapshot::kFindingInSql) + " ORDER BY id LIMIT ?)";
  bool deleted = false;
  for (const auto& [share, rows] : rows_) {
    if (share.empty() || rows <= part) continue;
    TRY(execute(*database_, sql.c_str(), share, rows - part));
    deleted = true;
  }
  return deleted ? count_rows() : Result<void>();
}

// Deletes more than necessary, so that the rows are not counted again for each batch.
Result<void> EventStore::bound_owners() {
  const std::size_t part = std::max<std::size_t>(1, bounds_.rows / kPart);
  const std::size_t most = bounds_.rows - bounds_.rows / 100;
  const std::string sql = "DELETE FROM events WHERE id IN (SELECT id FROM events WHERE " +
                          std::string(snapshot::kFindingInSql) + " = ? AND " + snapshot::kOwnerInSql +
                          " = ? ORDER BY id LIMIT ?)";
  while (row_count_ > most) {
    std::size_t findings = 0;
    for (const auto& [group, rows] : groups_) findings += group.finding ? rows : 0;
    std::map<snapshot::EventGroup, std::size_t>::value_type* largest = nullptr;
    std::size_t second = 0;
    for (auto& entry : groups_) {
      const auto& [group, rows] = entry;
      const bool of_node = !group.finding && group.owner.empty();
      if (of_node ? rows <= part : group.finding && findings <= part) continue;
      if (largest != nullptr && rows <= largest->second) second = std::max(second, rows);
      else second = largest == nullptr ? 0 : largest->second, largest = &entry;
    }
    if (largest == nullptr || largest->second == 0) return {};
    const std::size_t above = std::max<std::size_t>(largest->second - second, bounds_.rows / 100 + 1);
    const std::size_t give = std::min({largest->second, row_count_ - most, above});
    TRY(execute(*database_, sql.c_str(), largest->first.finding, largest->first.owner, give));
    largest->second -= give;
    row_count_ -= give;
  }
  return count_rows();
}

Result<void> EventStore::forget_old(Time now) {
  aged_at_ = now;
  return execute(*database_, "DELETE FROM events WHERE unix_ns < ?", unix_ns(now - bounds_.age));
}

Result<std::vector<snapshot::Event>> EventStore::rows_of(const Question& question) {
  const EventQuery& query = question.query;
  std::string sql = "SELECT " + std::string(kColumns) + " FROM events WHERE id > ? AND unix_ns >= ?";
  if (!query.share.empty()) sql += " AND share = ?";
  Statement row =
      TRY(Statement::prepare(*database_, (sql + (query.newest ? " ORDER BY id DESC" : " ORDER BY id")).c_str()));
  row.bind(query.after, query.since_unix_ns);
  if (!query.share.empty()) row.bind(query.share);
  std::vector<snapshot::Event> found;
  while (found.size() < question.most && question.waits() && TRY(row.step())) {
    snapshot::Event event = TRY(event_of(row));
    if (query.matches(event) && question.wanted(event)) found.push_back(std::move(event));
  }
  if (query.newest) std::ranges::reverse(found);
  return found;
}

}  // namespace headgate::tenancy
