// Mixes of shares with promises, and what each share should have. Those of one share, of equal ones and of pauses are in
// turns_rows.cpp.
#pragma once

#include <string>
#include <vector>

namespace headgate::bench {

struct Tenant {
  std::vector<std::string> share;  // arguments of `headgate share create`
  std::vector<std::string> load;   // of headgate-load, on the share's first GPU
  double weight = 100;
  bool beside_shares = false;                  // no share, no limiter
  std::vector<std::vector<std::string>> also;  // of further programs in the share
  unsigned gib = 1;                            // on each GPU; a context takes half of one
};

struct Mix {
  std::string name;
  std::vector<Tenant> tenants;
  std::vector<double> asked;  // percent of GPU 0, in the order of the tenants
  double in_flight_ms = 0;    // kernels longer than 20 ms, one of each process of a share: they may be off by as much
  std::string profile = "h200";
  bool uses_other_gpu = false;  // one share alone has GPU 1, so 98 % of it must be used
  bool daemon_dies = false;     // kill -9 once all are at work; judged from a second later
};

// Mixes whose promises were broken once, and weights over promises. All of a share's kernels are as long as each other.
[[nodiscard]] std::vector<Mix> promise_mixes();

}  // namespace headgate::bench
