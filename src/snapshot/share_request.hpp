// A request for a share in the grammar of the command ("8GiB", "50%", "40TFLOPS", "2h"), and the table of its
// attributes. The command's options and views, the reader of the API's bodies and the API's document follow from it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "guest/grant/environment.hpp"
#include "guest/grant/select.hpp"
#include "guest/grant/size.hpp"
#include "snapshot/snapshot.hpp"

namespace headgate::snapshot {

// An empty field was not requested: a new share takes the default, an existing one keeps its value.
struct ShareRequest {
  using Text = std::optional<std::string>;
  using Flag = std::optional<bool>;
  using Names = std::optional<std::vector<std::string>>;  // names or numbers; {"none"}

  Text name, gpu, gang, isolation, fail_policy;
  Text mem, host_mem, compute, burst, weight, priority_class;
  Text ttl, idle_notice, freeze_after, admit, on_oom;
  Flag overcommit, oversubscribe, everyone;
  bool void_promises = false;  // no property of the share: the caller accepts a promise that will not be kept
  Flag until_empty;
  Names users, groups;

  friend bool operator==(const ShareRequest&, const ShareRequest&) = default;
};

// The field of a snapshot that shows the attribute: a text, whether, or a time in ns. None: a view has its own words.
using ShownField =
    std::variant<std::monostate, std::string Share::*, bool Share::*, std::optional<std::uint64_t> Share::*>;

struct ShareAttribute {
  std::string_view key;              // in bodies
  const char *option, *type, *help;  // of the command: the option's names, what its value is called, a line. "": none
  ShownField shown;
  std::string_view meaning, accepted;  // in the API's document
  bool fixed = false;                  // for the life of the share
  bool takes_number = false;           // a text that may also be a JSON number
};

// Calls visit(attribute, field) for each, in the order of the API's document and of the command's help.
template <typename Request, typename Visit>
void each_attribute(Request& r, Visit&& visit) {
  const std::string_view memory = grant::accepted_memory(grant::Dialect::headgate);
  const std::string_view compute = grant::accepted_compute(grant::Dialect::headgate);
  const std::string_view time = "30s, 5m, 2h, 7d or none", yes_or_no = "true or false";
  const std::string_view names = "names or numbers, or none alone";
  using A = ShareAttribute;

  visit(A{"name", "", "", "", {}, "what it is called", grant::accepted(grant::Syntax::share_name), true}, r.name);
  visit(A{"gpu",
          "-i,--gpu",
          "GPUS",
          "which GPUs: 0, 0,2-3, GPU-9c2f, all, auto",
          {},
          "which GPUs it covers; auto where nothing is said",
          grant::accepted_selectors(),
          true},
        r.gpu);
  visit(A{"gang", "--gang", "NAME", "run at the same time as your other shares of that gang", &Share::gang,
          "shares of one owner and gang have their turns together", "a name, or none", true},
        r.gang);
  visit(A{"isolation", "--isolation", "HOW",
          "hook: in turns; mps: kernels run at once; timeslice: in the driver's time slices", &Share::isolation,
          "how its programs have the GPU beside others: in turns, as clients of an MPS server, or in time slices",
          "hook, mps or timeslice", true},
        r.isolation);
  visit(
      A{"fail_policy", "--fail-policy", "POLICY", "if GPU time cannot be measured: open (run without limits) or closed",
        &Share::fail_policy, "what happens to launches that cannot be measured", "open or closed", true},
      r.fail_policy);

  visit(A{"mem",
          "-m,--mem",
          "SIZE",
          "memory limit on each GPU: 8GiB, 8GB, 50%, none",
          {},
          "memory limit on each of its GPUs; none: no limit",
          memory},
        r.mem);
  visit(A{"host_mem",
          "--host-mem",
          "SIZE",
          "host memory that stands in for the GPU's past --mem",
          {},
          "host memory that stands in for the GPU's past the limit",
          memory},
        r.host_mem);
  visit(A{"compute",
          "-c,--compute",
          "PART",
          "promised part of each GPU's time: 50%, 40TFLOPS, none",
          {},
          "part of each GPU's time that is promised; the ceiling too, where the share has no burst",
          compute},
        r.compute);
  visit(A{"burst",
          "--burst",
          "PART",
          "use up to this while no other share wants it: 80%, none",
          {},
          "ceiling above what is promised, while others leave time; none: no other than that; a change that does not "
          "name it leaves it",
          compute},
        r.burst);
  visit(A{"weight",
          "--weight",
          "N",
          "part of what is left over, beside other shares: 1 to 1000 (users: to 100)",
          {},
          "its part of what is left, against the weights of others",
          "1 to 1000",
          false,
          true},
        r.weight);
  visit(A{"class",
          "--class",
          "CLASS",
          "best-effort, normal, or latency (which administrators give)",
          {},
          "which share goes first if several want the GPU",
          "best-effort, normal or latency"},
        r.priority_class);
  visit(A{"ttl",
          "--ttl",
          "TIME",
          "time to live; then no process may join, and the share ends with its last program: 8h, 7d, none",
          {},
          "when it ends by itself",
          time},
        r.ttl);
  visit(A{"idle_notice", "--idle-notice", "TIME", "event when it has used no GPU for this time: 2h, none",
          &Share::idle_notice_ns, "after how long without GPU work an event says so", time},
        r.idle_notice);
  visit(A{"freeze_after", "--freeze-after", "TIME",
          "move memory of idle programs to the host until their next call: 10m, none", &Share::freeze_after_ns,
          "after how long without a call of theirs its programs move their memory to the host", time},
        r.freeze_after);
  visit(A{"admit", "--admit", "WHEN", "now, or ask: an outside scheduler decides on each process", &Share::admit,
          "what decides on a process that wants to join",
          "now, or ask: an outside scheduler, over /v1/channel/scheduler"},
        r.admit);
  visit(A{"on_oom", "--on-oom", "WHAT", "if an allocation does not fit: fail, wait (30s), wait=5m", &Share::on_oom,
          "what becomes of an allocation for which there is no room", "fail, wait or wait=30s (up to 1h)"},
        r.on_oom);
  visit(A{"overcommit", "--overcommit", "", "allow more memory than the card has left; no promises then; =no",
          &Share::overcommit, "whether it may be committed what is committed already", yes_or_no},
        r.overcommit);
  visit(A{"oversubscribe", "--oversubscribe", "",
          "--mem may be more than the card has: the rest is host memory that programs see as the GPU's; =no",
          &Share::oversubscribe,
          "whether programs see its host memory as the card's, and mem may be more than the card has: the rest is host "
          "memory",
          yes_or_no},
        r.oversubscribe);
  visit(A{"everyone",
          "--everyone",
          "",
          "all processes that reach its directory may join (containers); =no",
          {},
          "whether anybody may enter it",
          yes_or_no},
        r.everyone);
  visit(A{"void_promises",
          "-y,--yes",
          "",
          "do not ask whether promises may become void",
          {},
          "allow class best-effort with a promise on a GPU under policy priority; otherwise that is refused (409) with "
          "the promises that would be void",
          yes_or_no},
        r.void_promises);
  visit(A{"until_empty", "", "", "", {}, "whether it ends with its last process", yes_or_no}, r.until_empty);
  visit(A{"users",
          "--user",
          "USERS",
          "users that may join beside the owner: names or numbers, with commas; none",
          {},
          "users that may join it besides its owner",
          names},
        r.users);
  visit(A{"groups",
          "--group",
          "GROUPS",
          "groups whose members may join; none",
          {},
          "groups whose members may join it",
          names},
        r.groups);
}

}  // namespace headgate::snapshot
