// Loads the driver's NVML library by name, keeps it initialised while the object lives, and offers plain function
// pointers. No other host room loads it.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "guest/abi/nvml.hpp"

namespace headgate::nvml {

inline bool ok(abi::nvmlReturn_t result) { return result == abi::NVML_SUCCESS; }

// nvml.h's nvmlFieldValue_t. `value` is a union there; of a type other than unsigned long long, the lower bytes count.
struct FieldValue {
  unsigned id = 0, scope = 0;
  long long timestamp_us = 0, latency_us = 0;
  unsigned type = 0;  // nvmlValueType_t
  abi::nvmlReturn_t result{};
  unsigned long long value = 0;
};
static_assert(sizeof(FieldValue) == 40);
inline constexpr unsigned kUnsignedLongLong = 3;  // NVML_VALUE_TYPE_UNSIGNED_LONG_LONG

// One pointer per function; null if the loaded driver (older or newer) lacks it.
struct Functions {
#define NVML_FN(name, kind, parameters, arguments) abi::name##_t* name = nullptr;  // NOLINT(bugprone-macro-parentheses)
#include "guest/abi/nvml_table.def"
// NOLINTNEXTLINE(bugprone-macro-parentheses)
#define NVML_MORE(name, parameters) abi::nvmlReturn_t(*name) parameters = nullptr;
#include "nvml/more.def"
};

// Opening and closing are not thread-safe; the functions are, as NVML documents.
class Library {
 public:
  // Loads `file` ("libnvidia-ml.so.1" uses the loader's search) and initialises it.
  // Errors: unreachable (no such library, or the driver does not answer).
  [[nodiscard]] static Result<Library> open(const std::string& file);

  Library(Library&& other) noexcept;
  Library& operator=(Library&& other) noexcept;
  Library(const Library&) = delete;
  ~Library();

  [[nodiscard]] const Functions* operator->() const { return &functions_; }
  // Returns the path of the loaded file, as the loader found it.
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string driver_version() const;

 private:
  Library() = default;
  void close();

  Functions functions_;
  std::string path_;
  bool open_ = false;
};

// Calls a function of the library. Returns false if the driver lacks it, or answers with an error.
template <typename Function, typename... Arguments>
[[nodiscard]] bool call(Function function, Arguments... arguments) {
  return function != nullptr && ok(function(arguments...));
}
// Returns a text such as a GPU's name; empty if there is none.
[[nodiscard]] std::string text_of(abi::nvmlReturn_t (*ask)(abi::nvmlDevice_t, char*, unsigned),
                                  abi::nvmlDevice_t device);

// Returns the rows of one of the driver's lists, which `ask(rows, &count)` reads; nothing if it fails. More may come
// meanwhile: doubles the room of first `room` rows, a few times.
template <typename Row, typename Ask>
[[nodiscard]] std::optional<std::vector<Row>> read_rows(std::size_t room, Ask ask) {
  std::vector<Row> rows(room);
  unsigned count = static_cast<unsigned>(room);
  abi::nvmlReturn_t result = ask(rows.data(), &count);
  for (int round = 0; result == abi::NVML_ERROR_INSUFFICIENT_SIZE && round < 4; ++round) {
    rows.resize(std::max<std::size_t>(count, rows.size()) * 2);
    count = static_cast<unsigned>(rows.size());
    result = ask(rows.data(), &count);
  }
  if (!ok(result)) return std::nullopt;
  rows.resize(std::min<std::size_t>(count, rows.size()));
  return rows;
}

// Returns "permission denied", "a GPU is lost", "NVML error 42".
[[nodiscard]] std::string words(abi::nvmlReturn_t result);

}  // namespace headgate::nvml
