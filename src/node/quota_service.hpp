// Quotas: how an administrator sets and removes them, each with an event. For the daemon's loop only.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.hpp"
#include "node/caller.hpp"
#include "node/managed_shares.hpp"

namespace headgate::node {

class QuotaService {
 public:
  explicit QuotaService(ManagedShares& managed) : managed_(managed) {}

  [[nodiscard]] const std::vector<tenancy::Quota>& list() const { return managed_.shares.quotas(); }
  // Sets a quota and returns all of it. Naming::all: limits not named are removed; some: they stay. Errors: denied;
  // usage if it would bound nothing.
  enum class Naming { all, some };
  [[nodiscard]] Result<tenancy::Quota> set(const tenancy::QuotaChange& change, Naming naming, const Caller& caller);
  // Errors: denied; not_found.
  [[nodiscard]] Result<void> remove(tenancy::Quota::Subject subject, std::uint32_t id, const Caller& caller);

 private:
  ManagedShares& managed_;
};

}  // namespace headgate::node
