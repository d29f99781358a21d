#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "power/token.hpp"

// Fuzzes a caller's token, and the claims of a token as if it were signed.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace headgate::power;
  static const std::string key = "the key of the fuzzer";
  const std::string text(reinterpret_cast<const char*>(data), size);
  // The fuzzer cannot sign a token.
  if (verify_token(text, key, 1'800'000'000)) std::abort();
  const auto claims = claims_from(text);
  if (!claims) {
    if (claims.error().message.empty()) std::abort();
    return 0;
  }
  if (claims->user.empty()) return 0;
  const auto token = issue_token(*claims, key);
  if (!token) return 0;
  const auto again = verify_token(*token, key, claims->expires_s.value_or(0));
  if (!again || *again != *claims) std::abort();
  return 0;
}
