// The operations on shares: what the API, and through it the command, may ask of the node. Each checks the caller, does
// it, and writes an event. For the daemon's loop only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "node/admission_queue.hpp"
#include "node/caller.hpp"
#include "node/gpu_policies.hpp"
#include "node/managed_shares.hpp"
#include "node/share_reporter.hpp"
#include "node/share_request.hpp"

namespace headgate::node {

class ShareService {
 public:
  using Gpus = std::vector<snapshot::Gpu>;

  // All must outlive it.
  ShareService(ManagedShares& managed, const GpuPolicies& policies, AdmissionQueue& queue, ShareReporter& reporter)
      : managed_(managed), policies_(policies), queue_(queue), reporter_(reporter) {}

  // `gpus`: of the latest snapshot, for "auto" and percentages. Errors: of share_of and admission; denied.
  [[nodiscard]] Result<void> create(const ShareRequest& order, const Caller& caller, const Gpus& gpus);
  // As create(), as soon as there is room. Errors: of create() except room; of AdmissionQueue::enter().
  [[nodiscard]] Result<std::uint64_t> wait_for_room(const ShareRequest& order, const Caller& caller, const Gpus& gpus,
                                                    Queue::Events events);
  [[nodiscard]] Result<void> set(const std::string& name, const ShareRequest& order, const Caller& caller,
                                 const Gpus& gpus);
  // As set() for several shares in one step: room is looked for as all of them will be, and after an error none has
  // changed. Errors: besides those of set(), usage for a share that is named twice.
  [[nodiscard]] Result<void> set(const std::vector<NamedRequest>& orders, const Caller& caller, const Gpus& gpus);
  [[nodiscard]] Result<void> remove(const std::string& name, const Caller& caller);
  [[nodiscard]] Result<void> pause(const std::string& name, const Caller& caller);
  [[nodiscard]] Result<void> resume(const std::string& name, const Caller& caller);
  [[nodiscard]] Result<void> drain(const std::string& name, const Caller& caller);
  [[nodiscard]] Result<void> reclaim(const std::string& name, const Caller& caller);

 private:
  [[nodiscard]] Result<tenancy::Share> new_share(const ShareRequest& order, const Caller& caller,
                                                 const Gpus& gpus) const;
  [[nodiscard]] Result<tenancy::Share> changed_share(const std::string& name, const ShareRequest& order,
                                                     const Caller& caller, const Gpus& gpus) const;
  [[nodiscard]] Result<void> check_promise(const ShareRequest& order, const tenancy::Share* before,
                                           const tenancy::Share& wanted) const;
  [[nodiscard]] Result<bool> command(const std::string& name, const Caller& caller,
                                     Result<void> (tenancy::Shares::*operation)(const std::string&));
  void tell(const char* kind, const std::string& name, const Caller& caller, const std::string& did);

  ManagedShares& managed_;
  const GpuPolicies& policies_;
  AdmissionQueue& queue_;
  ShareReporter& reporter_;
};

}  // namespace headgate::node
