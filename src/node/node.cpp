#include "node/node.hpp"

#include <sys/stat.h>

#include <algorithm>

#include "base/now.hpp"
#include "base/units.hpp"
#include "base/user_name.hpp"
#include "guest/grant/text.hpp"
#include "node/mps_exclusion.hpp"
#include "node/share_text.hpp"
#include "node/unattended.hpp"
#include "node/void_promises.hpp"
#include "snapshot/gpu_name.hpp"
#include "tenancy/access.hpp"

namespace headgate::node {
namespace {

// Accepted beside the policies' names: what the configuration says.
constexpr std::string_view kDefaultPolicy = "default";

// Whole percents, never above the ceiling unless that is below 1 %.
std::uint32_t thread_percentage_of(const tenancy::Share& share) {
  std::uint32_t ceiling_ppm = 0;
  for (const auto& device : share.devices) ceiling_ppm = std::max(ceiling_ppm, device.ceiling_ppm);
  return std::clamp(ceiling_ppm / 10'000, 1u, 100u);
}

}  // namespace

Result<Node> Node::open(NodeOptions options, observe::EventLog& events) {
  std::vector<tenancy::Card> cards;
  for (const auto& gpu : options.gpus) cards.push_back({gpu.uuid, gpu.memory_total_bytes, snapshot::gpu_name(gpu)});
  auto store = TRY(tenancy::Store::open(options.state_file));
  tenancy::Adoption adoption;
  auto shares = TRY(
      tenancy::Shares::open({.runtime_dir = options.runtime_dir, .cards = std::move(cards), .reserve = options.reserve},
                            std::move(store), adoption));
  Node node(std::move(shares), std::move(options), events);
  for (const auto& name : adoption.adopted)
    node.tell("share.adopted", "info", name, 0, "the share " + name + " was found and goes on");
  for (const auto& name : adoption.made_anew)
    node.tell("share.restored", "info", name, 0, "the share " + name + " was made again from the store");
  for (const auto& name : adoption.unmanaged)
    node.tell(
        "share.unmanaged", "warn", name, 0,
        "the share " + name + " has pages in " + node.options_.runtime_dir +
            " and is not in the database: of `headgate run` without headgated, or the database was lost. It counts "
            "as not committed. To make it again, end its programs and remove " +
            node.options_.runtime_dir + "/shares/" + name);
  for (const auto& [name, error] : adoption.refused)
    node.tell("share.broken", "error", name, 0, error.message + (error.hint.empty() ? "" : " (" + error.hint + ")"));
  return node;
}

void Node::tell(const std::string& kind, const std::string& severity, const std::string& share, std::uint32_t uid,
                const std::string& text, std::optional<std::uint32_t> owner_uid) {
  if (!owner_uid) {
    if (const tenancy::LiveShare* const live = shares_.find(share)) owner_uid = live->share.owner_uid;
  }
  events_->add({.kind = kind, .severity = severity, .share = share, .uid = uid, .owner_uid = owner_uid, .text = text});
}

// Returns whether the views show the share by its pages only; no operation can change it.
bool Node::has_pages_only(const std::string& name, const Caller& caller) const {
  struct stat directory{};
  return tenancy::check_name(name) && ::lstat(shares_.directory(name).c_str(), &directory) == 0 &&
         S_ISDIR(directory.st_mode) && caller.owns(directory.st_uid);
}

Result<void> Node::name_is_free(const std::string& name, const Caller& caller) {
  const tenancy::LiveShare* const live = shares_.find(name);
  if (live == nullptr) return {};
  return fail(ErrorCode::conflict, "there is a share '" + name + "' already",
              caller.owns(live->share.owner_uid) ? "'headgate share set' changes it"
                                                 : "it is another user's: choose another name (of a run: --name)");
}

Result<tenancy::LiveShare*> Node::changeable(const std::string& name, const Caller& caller) {
  tenancy::LiveShare* const found = shares_.find(name);
  if (found != nullptr && !caller.owns(found->share.owner_uid) &&
      caller.sees(found->share.owner_uid, found->share.users, found->share.groups))
    return fail(
        ErrorCode::denied,
        "the share '" + name + "' is " + user_name(found->share.owner_uid) + "'s: you may use it, and not change it",
        "its owner and administrators may");
  if (found == nullptr && has_pages_only(name, caller))
    return fail(ErrorCode::not_found,
                "the share '" + name + "' is known by its pages in " + shares_.directory(name) +
                    " alone, and is not in the database: of `headgate run` without headgated, or the database was lost",
                "it goes with its pages: end its programs, then rm -r " + shares_.directory(name));
  // A caller that may not see a share gets the same answer as for one that does not exist.
  if (found == nullptr || !caller.owns(found->share.owner_uid)) {
    std::string known;
    for (const auto& [other, live] : shares_.list()) {
      if (caller.owns(live.share.owner_uid)) known += (known.empty() ? "" : ", ") + other;
    }
    return fail(ErrorCode::not_found, "there is no share '" + tenancy::escape_untrusted(name) + "' of yours",
                known.empty() ? "make one: headgate share create NAME" : "there are: " + known);
  }
  return found;
}

Result<void> Node::has_room_for_one_more(const Caller& caller) const {
  if (!caller.known() && !caller.administrator)
    return fail(ErrorCode::denied, "an unknown user makes no share",
                "ask over the control socket, or show the token of the daemon's token file");
  const auto& list = shares_.list();
  if (list.size() >= tenancy::kMaxShares)
    return fail(ErrorCode::no_capacity, "this node has " + std::to_string(list.size()) + " shares, and takes no more",
                "remove one");
  if (!caller.administrator) {
    if (auto room = shares_.check_room(1 + tenancy::Shares::kKeptForAdministrators); !room) return room;
  }
  const tenancy::Share of_caller{.name = {}, .owner_uid = caller.uid, .owner_gids = {}, .devices = {}};
  const auto quotas = tenancy::holding(of_caller, shares_.quotas());
  const bool counted_by_quota = !quotas.empty() && quotas.front().shares;
  if (caller.administrator || counted_by_quota) return {};
  const auto own =
      std::ranges::count_if(list, [&](const auto& entry) { return entry.second.share.owner_uid == caller.uid; }) +
      std::ranges::count_if(queue_.list(), [&](const auto& waiter) { return waiter.share.owner_uid == caller.uid; });
  if (static_cast<std::size_t>(own) < options_.shares_per_user) return {};
  return fail(ErrorCode::denied,
              "you have " + std::to_string(own) +
                  (own == 1 ? " share or request for one" : " shares and requests for some") +
                  ", which is the most that a user may have here",
              "remove one, or ask an administrator for a quota of more (headgate quota set --shares), or for a larger "
              "node.shares_per_user");
}

namespace {

// An overcommitted share takes room on the card from what was committed: its owner may change all but its devices.
Result<void> may_overcommit(const tenancy::Share* before, const tenancy::Share& wanted, const Caller& caller) {
  const bool as_before = before != nullptr && before->overcommit && before->devices == wanted.devices;
  if (!wanted.overcommit || caller.administrator || as_before) return {};
  return fail(ErrorCode::denied,
              "only an administrator may overcommit a card, or change an overcommitted share's limits",
              "root, or the group of the control socket; or a share that fits: headgate free");
}

// A process can give up groups (in a user namespace, by newgrp), and with them their quotas, so those in the system's
// directory count too. If the directory does not answer and there is a group quota, the request fails.
Result<std::vector<std::uint32_t>> all_groups_of(const Caller& caller, const UserDirectory& directory,
                                                 std::span<const tenancy::Quota> quotas) {
  std::vector<std::uint32_t> all = caller.gids;
  if (caller.known()) {
    auto more = directory.groups_of(caller.uid);
    const bool matters =
        std::ranges::find(quotas, tenancy::Quota::Subject::group, &tenancy::Quota::subject) != quotas.end();
    if (!more && matters) return std::unexpected(std::move(more.error()));
    if (more) all.insert(all.end(), more->begin(), more->end());
  }
  std::ranges::sort(all);
  all.erase(std::ranges::unique(all).begin(), all.end());
  return all;
}

}  // namespace

Result<tenancy::Share> Node::asked_for(const ShareRequest& order, const Caller& caller,
                                       const std::vector<snapshot::Gpu>& gpus) const {
  // Check it first: look nothing up for a caller that may not have a share.
  if (auto free = has_room_for_one_more(caller); !free) return std::unexpected(free.error());
  const UserDirectory directory = system_directory();
  tenancy::Share share = TRY(share_of(order, nullptr, gpus, directory));
  lay_past_the_card(order, shares_.node().cards, shares_.node().reserve, share);
  share.owner_uid = caller.uid;
  if (auto may = may_overcommit(nullptr, share, caller); !may) return std::unexpected(may.error());
  share.owner_gids = TRY(all_groups_of(caller, directory, shares_.quotas()));
  fit_to_quotas(order, share);
  if (auto may = may_have_rank(nullptr, share, caller); !may) return std::unexpected(may.error());
  std::vector<tenancy::Share> others;
  for (const auto& [name, live] : shares_.list()) others.push_back(live.share);
  if (options_.mps_exclusive)
    if (auto fits = fits_beside(share, others); !fits) return std::unexpected(fits.error());
  return share;
}

Result<void> Node::keeps_its_promise(const ShareRequest& order, const tenancy::Share* before,
                                     const tenancy::Share& wanted) const {
  // A run's share is removed with its program, and `headgate run` does not ask for consent.
  if (arbitration_ == nullptr || wanted.until_empty) return {};
  const auto policy = [this](const std::string& uuid) {
    const auto gpu = std::ranges::find(arbitration_->gpus(), uuid);
    return gpu == arbitration_->gpus().end()
               ? schedule::Policy::off
               : arbitration_->policy(static_cast<std::uint32_t>(gpu - arbitration_->gpus().begin()));
  };
  return need_consent("share '" + wanted.name +
                          "': of class best-effort, on a GPU whose policy is priority, it has no more "
                          "than shares of higher classes leave",
                      voided_by_class(before, wanted, policy), order.void_promises);
}

Result<void> Node::make(tenancy::Share share) {
  share.created_at_s = lease_now_s();
  const std::string name = share.name, words = describe(share);
  const std::uint32_t owner = share.owner_uid;
  if (auto made = shares_.create(std::move(share)); !made) return made;
  if (made_) made_(name);
  refusals_[name] = {};
  given_up_[name] = 0;
  divide_unattended(name);
  tell("share.created", "info", name, owner, user_name(owner) + " created the share " + name + ": " + words);
  return {};
}

Result<void> Node::create(const ShareRequest& order, const Caller& caller, const std::vector<snapshot::Gpu>& gpus) {
  tenancy::Share share = TRY(asked_for(order, caller, gpus));
  if (auto taken = name_is_free(share.name, caller); !taken) return taken;
  if (auto good = goes_first(share, caller); !good) return good;
  if (auto kept = keeps_its_promise(order, nullptr, share); !kept) return kept;
  return make(std::move(share));
}

Result<tenancy::Share> Node::wanted_by(const std::string& name, const ShareRequest& order, const Caller& caller,
                                       const std::vector<snapshot::Gpu>& gpus) {
  const tenancy::LiveShare* const live = TRY(changeable(name, caller));
  if (order.name && *order.name != name)
    return fail(ErrorCode::unsupported, "a share keeps its name", "create another one");
  tenancy::Share wanted = TRY(share_of(order, &live->share, gpus, system_directory()));
  lay_past_the_card(order, shares_.node().cards, shares_.node().reserve, wanted);
  if (auto may = may_overcommit(&live->share, wanted, caller); !may) return std::unexpected(may.error());
  if (auto may = may_have_rank(&live->share, wanted, caller); !may) return std::unexpected(may.error());
  if (auto kept = keeps_its_promise(order, &live->share, wanted); !kept) return std::unexpected(kept.error());
  const std::int64_t now = lease_now_s();
  if (order.ttl && tenancy::has_ended(wanted, now))
    return fail(ErrorCode::usage,
                "a time to live of " + *order.ttl + " is over already: it counts from when the share was made, " +
                    duration_text(static_cast<std::uint64_t>(now - live->share.created_at_s) * 1'000'000'000) + " ago",
                "a longer one; or headgate share drain " + name + ", which admits no process from now on");
  return wanted;
}

Result<void> Node::set(const std::string& name, const ShareRequest& order, const Caller& caller,
                       const std::vector<snapshot::Gpu>& gpus) {
  return set({{name, order}}, caller, gpus);
}

Result<void> Node::set(const std::vector<NamedRequest>& orders, const Caller& caller,
                       const std::vector<snapshot::Gpu>& gpus) {
  std::vector<tenancy::Share> all;
  std::vector<std::string> changes;
  for (const auto& [name, order] : orders) {
    if (std::ranges::find(all, name, &tenancy::Share::name) != all.end())
      return fail(ErrorCode::usage, "the share '" + name + "' is named twice", "name each share once");
    all.push_back(TRY(wanted_by(name, order, caller, gpus)));
    changes.push_back(describe_changes(shares_.find(name)->share, all.back()));
  }
  if (auto done = shares_.set(all); !done) return done;
  const std::int64_t now = lease_now_s();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const tenancy::Share& wanted = all[i];
    tell("share.set", "info", wanted.name, caller.uid,
         user_name(caller.uid) + " changed the share " + wanted.name + ": " +
             (changes[i].empty() ? "nothing that it did not have; it has " + describe(wanted) : changes[i]));
    if (!tenancy::has_ended(wanted, now)) tenancy::Shares::set_time_over(*shares_.find(wanted.name), false);
    divide_unattended(wanted.name);
    if (changed_) changed_(wanted.name);
  }
  serve_queue();
  return {};
}

Result<void> Node::remove(const std::string& name, const Caller& caller) {
  const tenancy::LiveShare* const live = TRY(changeable(name, caller));
  const std::uint32_t owner_uid = live->share.owner_uid;
  const std::vector<tenancy::DeviceShare> devices = live->share.devices;
  if (auto done = remove_pages(name, caller.pid); !done) return done;
  forget(name);
  divide_unattended(devices);
  tell("share.removed", "info", name, caller.uid, user_name(caller.uid) + " removed the share " + name, owner_uid);
  serve_queue();
  return {};
}

Result<void> Node::set_gpu_policy(const std::string& uuid, const std::string& policy, bool void_promises,
                                  const Caller& caller) {
  if (!caller.administrator)
    return fail(ErrorCode::denied, "only an administrator sets a GPU's policy",
                "root, or the group of the control socket");
  const bool as_usual = policy == kDefaultPolicy;
  auto wanted = as_usual ? Result<schedule::Policy>(usual_policy_) : parse_policy(policy);
  if (!wanted) {
    wanted.error().hint += ", or default: as the configuration says";
    return std::unexpected(wanted.error());
  }
  const auto& gpus = arbitration_->gpus();
  const auto found = std::ranges::find_if(gpus, [&](const auto& gpu) { return grant::same_ignoring_case(gpu, uuid); });
  if (found == gpus.end())
    return fail(ErrorCode::not_found,
                "there is no GPU " + tenancy::escape_untrusted(uuid) + ", or it did not answer when headgated started",
                "GET /v1/gpus (headgate status) lists them; one that is present is taken up when headgated restarts");
  if (found - gpus.begin() >= schedule::kMaxGpus)
    return fail(ErrorCode::unsupported,
                "headgated gives turns on " + std::to_string(schedule::kMaxGpus) + " GPUs at most, and " +
                    tenancy::escape_untrusted(uuid) + " is one more: its policy is off",
                "a ceiling (--compute) holds there as well");
  const auto number = static_cast<std::uint32_t>(found - gpus.begin());
  const auto promises = voided_by_policy(shares_.rows(), *found, arbitration_->policy(number), *wanted);
  if (auto agreed = need_consent("the policy " + policy_word(*wanted), promises, void_promises); !agreed) return agreed;
  if (auto kept = shares_.set_gpu_policy(*found, as_usual ? "" : policy); !kept) return kept;
  arbitration_->set_policy(number, *wanted);
  events_->add({.kind = "gpu.policy",
                .severity = "info",
                .uuid = *found,
                .uid = caller.uid,
                .text = user_name(caller.uid) + " has GPU " + found->substr(0, 12) + " given by the policy " +
                        policy_word(*wanted) + (as_usual ? ", which is the configuration's" : "")});
  return {};
}

void Node::set_usual_policy(schedule::Policy policy) {
  usual_policy_ = policy;
  for (std::uint32_t g = 0; g < arbitration_->gpus().size(); ++g) {
    const auto said = shares_.gpu_policies().find(arbitration_->gpus()[g]);
    // A policy that only a newer headgate knows leaves the configuration's in force.
    const auto kept =
        said == shares_.gpu_policies().end() ? Result<schedule::Policy>(policy) : parse_policy(said->second);
    arbitration_->set_policy(g, kept.value_or(policy));
  }
}

Result<void> Node::arbitrate(const std::string& share, UniqueFd bell) {
  const tenancy::LiveShare* const live = shares_.find(share);
  if (arbitration_ == nullptr || live == nullptr) return {};
  // Per owner: a user cannot join another's gang.
  const std::string gang =
      live->share.gang.empty() ? "" : std::to_string(live->share.owner_uid) + ":" + live->share.gang;
  return arbitration_->add(options_.runtime_dir, share, gang, std::move(bell));
}

Result<void> Node::hear_anew(const std::string& share, UniqueFd bell) {
  const tenancy::LiveShare* const live = shares_.find(share);
  if (arbitration_ == nullptr || live == nullptr) return {};
  if (auto heard = arbitration_->listen_by(share, std::move(bell)); !heard) return heard;
  tell("share.deaf", "warn", share, live->share.owner_uid,
       "a process of " + share +
           " shut down the doorbell of its share, or sent descriptors by it, which no limiter does: "
           "its processes get another one; headgate ps lists them");
  return {};
}

std::vector<int> Node::handed(const std::string& share) {
  const int node_page = node_pages_->descriptor(share);
  if (node_page < 0) return {};  // their order says which is which
  std::vector<int> all{node_page};
  if (arbitration_ != nullptr) std::ranges::copy(arbitration_->board_descriptors(share), std::back_inserter(all));
  return all;
}

void Node::divide_unattended(const std::vector<tenancy::DeviceShare>& devices) {
  for (const auto& device : devices)
    write_unattended(shares_, device.uuid,
                     [this](const std::string& share) { return tenants_ != nullptr && tenants_->count_in(share) > 0; });
}

void Node::divide_unattended(const std::string& name) {
  if (const tenancy::LiveShare* const live = shares_.find(name)) divide_unattended(live->share.devices);
}

void Node::divide_unattended() {
  std::vector<tenancy::DeviceShare> all;
  for (const auto& card : shares_.node().cards) all.push_back({.uuid = card.uuid, .memory_limit_bytes = {}});
  divide_unattended(all);
}

void Node::forget(const std::string& name) {
  if (arbitration_ != nullptr) arbitration_->remove(name);
  told_idle_.erase(name);
  told_broken_.erase(name);
  told_frozen_.erase(name);
  told_waiting_.erase(name);
  refusals_.erase(name);
  given_up_.erase(name);
  checks_.erase(name);
  node_pages_->forget(name);
  if (gone_) gone_(name);
}

void Node::watch_shares(std::function<void(const std::string&)> made, std::function<void(const std::string&)> gone,
                        std::function<void(const std::string&)> changed) {
  made_ = std::move(made);
  gone_ = std::move(gone);
  changed_ = std::move(changed);
}

// None of the three operations reports what was so already.
Result<void> Node::pause(const std::string& name, const Caller& caller) {
  const tenancy::LiveShare* const live = TRY(changeable(name, caller));
  const ledger::Command before = live->said;
  if (auto done = shares_.pause(name); !done) return done;
  if (live->said == before) return {};
  divide_unattended(name);
  tell("share.paused", "info", name, caller.uid, user_name(caller.uid) + " paused the share " + name);
  return {};
}

Result<void> Node::resume(const std::string& name, const Caller& caller) {
  const tenancy::LiveShare* const live = TRY(changeable(name, caller));
  if (live->time_over && !live->paused())
    return fail(ErrorCode::usage, "the time of the share '" + name + "' is over",
                "put its end off: headgate share extend " + name + " 1h");
  const ledger::Command before = live->said;
  if (auto done = shares_.resume(name); !done) return done;
  if (live->said == before) return {};
  divide_unattended(name);
  tell("share.resumed", "info", name, caller.uid, user_name(caller.uid) + " resumed the share " + name);
  return {};
}

Result<void> Node::drain(const std::string& name, const Caller& caller) {
  const tenancy::LiveShare* const live = TRY(changeable(name, caller));
  const ledger::Command before = live->said;
  if (auto done = shares_.drain(name); !done) return done;
  if (live->said == before) return {};
  if (changed_) changed_(name);
  tell("share.draining", "info", name, caller.uid,
       user_name(caller.uid) + " drained the share " + name + ": it takes no more processes nor memory");
  return {};
}

Result<void> Node::reclaim(const std::string& name, const Caller& caller) {
  TRY(changeable(name, caller));
  if (auto done = shares_.reclaim(name); !done) return done;
  tell("share.reclaimed", "info", name, caller.uid,
       user_name(caller.uid) + " had the programs of " + name + " asked for what they do not use");
  return {};
}

Result<Entry> Node::entry(const std::string& name, const Caller& caller, bool stay) {
  tenancy::LiveShare* const live = shares_.find(name);
  const auto member = [&](const tenancy::Share& share) {
    return caller.administrator ||
           (caller.known() && tenancy::may_enter(share, {.uid = caller.uid, .groups = caller.gids}).has_value());
  };
  if (live == nullptr || !member(live->share)) TRY(changeable(name, caller));
  if (auto trouble = shares_.trouble_of(*live)) return std::unexpected(std::move(*trouble));
  if (auto fits = check_compute_mode(live->share); !fits) return std::unexpected(fits.error());
  if (stay && caller.pid != 0) {
    std::optional<tenancy::InvitedUser> invited;
    if (!caller.owns(live->share.owner_uid)) invited = {caller.uid, caller.gids};
    if (auto stays = shares_.attach_run(name, caller.pid, std::move(invited)); !stays)
      return std::unexpected(stays.error());
  }
  Entry entry{.runtime_dir = options_.runtime_dir,
              .share = name,
              .directory = shares_.directory(name),
              .uuids = {},
              .simulated_dir = options_.simulated_dir};
  for (const auto& device : live->share.devices) entry.uuids.push_back(device.uuid);
  entry.thread_percentage = thread_percentage_of(live->share);
  return entry;
}

// Programs would fail in cuInit or at their first context, with an error that says less.
Result<void> Node::check_compute_mode(const tenancy::Share& share) const {
  if (share.isolation == tenancy::Isolation::hook) return {};
  for (const tenancy::DeviceShare& device : share.devices) {
    const auto found = compute_modes_.find(device.uuid);
    const std::string mode = found == compute_modes_.end() ? "" : found->second;
    const bool sliced = share.isolation == tenancy::Isolation::timeslice;
    if (mode != "prohibited" && !(sliced && mode == "exclusive process")) continue;
    return fail(ErrorCode::conflict,
                "share '" + share.name + "': its GPU " + device.uuid + " is in compute mode " + mode +
                    ", and isolation " + std::string(tenancy::isolation_word(share.isolation)) + " needs " +
                    (sliced ? "default" : "default or exclusive"),
                "headgate gpu mode default --gpu " + device.uuid);
  }
  return {};
}

std::optional<MpsShare> Node::mps_share(const std::string& name) const {
  const auto found = shares_.list().find(name);
  if (found == shares_.list().end()) return std::nullopt;
  const tenancy::Share& share = found->second.share;
  if (share.isolation != tenancy::Isolation::mps || share.devices.empty()) return std::nullopt;
  const tenancy::DeviceShare& device = share.devices.front();
  return MpsShare{.name = name,
                  .uuid = device.uuid,
                  .owner_uid = share.owner_uid,
                  .thread_percentage = thread_percentage_of(share),
                  .memory_limit_bytes = device.memory_limit_bytes,
                  .low_priority = device.priority_class == tenancy::Class::best_effort};
}

}  // namespace headgate::node
