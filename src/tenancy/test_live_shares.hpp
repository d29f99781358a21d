// Shares with pages and a store in a scratch directory, and tenants in them.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "guest/ledger/slot.hpp"
#include "tenancy/shares.hpp"
#include "tenancy/test_shares.hpp"

namespace headgate::tenancy {

class SharesTest : public ::testing::Test {
 protected:
  Shares start(Adoption& adoption) {
    auto store = Store::open(state_);
    if (!store) ADD_FAILURE() << store.error().message;
    auto shares =
        Shares::open({base_, {{kGpu0, 80 * kGiB}, {kGpu1, 80 * kGiB}}, {}}, std::move(store).value(), adoption);
    if (!shares) ADD_FAILURE() << shares.error().message;
    return std::move(shares).value();
  }
  Shares start() {
    Adoption adoption;
    return start(adoption);
  }
  static std::string words(const Result<void>& result) { return result ? "done" : result.error().message; }
  std::string file(const char* share, const char* which) { return base_ + "/shares/" + share + "/" + which; }

  // Acts as a limiter that finds the share by name; it must be the pages' owner.
  struct Tenant {
    ledger::SharePages pages;
    ledger::SlotRef slot;
    ~Tenant() { leave(); }
    void leave() {
      if (pages.usage != nullptr) ledger::release(*pages.usage, slot);
      ledger::close_pages(pages);
    }
  };
  void enter(const char* name, Tenant& tenant) {
    const auto fault = ledger::enter_share(base_.c_str(), name, nullptr, tenant.pages, tenant.slot);
    ASSERT_FALSE(fault) << page_error(fault, base_, name).message;
  }

  Scratch scratch_;
  std::string base_ = scratch_.path() + "/run", state_ = scratch_.path() + "/state.db";
};

}  // namespace headgate::tenancy
