// A request for a share in the grammar of the command ("8GiB", "50%", "40TFLOPS", "2h"), and the table of its
// attributes. The reader of the API's bodies and the API's document follow from the table.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "guest/grant/environment.hpp"
#include "guest/grant/select.hpp"
#include "guest/grant/size.hpp"

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

struct ShareAttribute {
  std::string_view key;  // in bodies
  std::string_view meaning;
  std::string_view accepted;
  bool fixed = false;         // for the life of the share
  bool takes_number = false;  // a text that may also be a JSON number
};

// Calls visit(attribute, field) for each, in the order of the API's document.
template <typename Request, typename Visit>
void each_attribute(Request& r, Visit&& visit) {
  const std::string_view memory = grant::accepted_memory(grant::Dialect::headgate);
  const std::string_view compute = grant::accepted_compute(grant::Dialect::headgate);
  const std::string_view time = "30s, 5m, 2h, 7d or none", yes_or_no = "true or false";
  const std::string_view names = "names or numbers, or none alone";
  using A = ShareAttribute;

  visit(A{"name", "what it is called", grant::accepted(grant::Syntax::share_name), true}, r.name);
  visit(A{"gpu", "which GPUs it covers; auto where nothing is said", grant::accepted_selectors(), true}, r.gpu);
  visit(A{"gang", "shares of one owner and gang have their turns together", "a name, or none", true}, r.gang);
  visit(A{"isolation",
          "how its programs have the GPU beside others: in turns, as clients of an MPS server, or in time slices",
          "hook, mps or timeslice", true},
        r.isolation);
  visit(A{"fail_policy", "what happens to launches that cannot be measured", "open or closed", true}, r.fail_policy);

  visit(A{"mem", "memory limit on each of its GPUs; none: no limit", memory}, r.mem);
  visit(A{"host_mem", "host memory that stands in for the GPU's past the limit", memory}, r.host_mem);
  visit(
      A{"compute", "part of each GPU's time that is promised; the ceiling too, where the share has no burst", compute},
      r.compute);
  visit(A{"burst",
          "ceiling above what is promised, while others leave time; none: no other than that; a change that does not "
          "name it leaves it",
          compute},
        r.burst);
  visit(A{"weight", "its part of what is left, against the weights of others", "1 to 1000", false, true}, r.weight);
  visit(A{"class", "which share goes first if several want the GPU", "best-effort, normal or latency"},
        r.priority_class);
  visit(A{"ttl", "when it ends by itself", time}, r.ttl);
  visit(A{"idle_notice", "after how long without GPU work an event says so", time}, r.idle_notice);
  visit(A{"freeze_after", "after how long without a call of theirs its programs move their memory to the host", time},
        r.freeze_after);
  visit(A{"admit", "what decides on a process that wants to join",
          "now, or ask: an outside scheduler, over /v1/channel/scheduler"},
        r.admit);
  visit(A{"on_oom", "what becomes of an allocation for which there is no room", "fail, wait or wait=30s (up to 1h)"},
        r.on_oom);
  visit(A{"overcommit", "whether it may be committed what is committed already", yes_or_no}, r.overcommit);
  visit(A{"oversubscribe",
          "whether programs see its host memory as the card's, and mem may be more than the card has: the rest is host "
          "memory",
          yes_or_no},
        r.oversubscribe);
  visit(A{"everyone", "whether anybody may enter it", yes_or_no}, r.everyone);
  visit(A{"void_promises",
          "allow class best-effort with a promise on a GPU under policy priority; otherwise that is refused (409) with "
          "the promises that would be void",
          yes_or_no},
        r.void_promises);
  visit(A{"until_empty", "whether it ends with its last process", yes_or_no}, r.until_empty);
  visit(A{"users", "users that may join it besides its owner", names}, r.users);
  visit(A{"groups", "groups whose members may join it", names}, r.groups);
}

}  // namespace headgate::snapshot
