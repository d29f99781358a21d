// Turns a fault into a sentence: what was wrong, the value, what is accepted, what to do.
#include <cerrno>
#include <cstring>

#include "guest/ledger/pages.hpp"

namespace headgate::ledger {
namespace {

class Writer {
 public:
  Writer(char* buffer, std::size_t size) : buffer_(buffer), size_(size) {
    if (size_ != 0) buffer_[0] = '\0';
  }
  Writer& text(const char* text) {
    while (*text != '\0') put(*text++);
    return *this;
  }
  // Names may come from a hostile page: control characters must not reach the terminal.
  Writer& name(const char* text) {
    put('"');
    for (; *text != '\0'; ++text) put(*text >= ' ' && *text < 127 ? *text : '?');
    put('"');
    return *this;
  }
  Writer& number(std::uint64_t value, std::uint32_t base = 10) {
    char digits[24];
    std::size_t count = 0;
    do digits[count++] = "0123456789abcdef"[value % base];
    while ((value /= base) != 0);
    while (count > 0) put(digits[--count]);
    return *this;
  }
  Writer& bytes(std::uint64_t value) {
    if (value == kNoMemoryLimit) return text("no limit");
    if (value != 0 && value % (1ull << 30) == 0) return number(value >> 30).text(" GiB");
    if (value != 0 && value % (1ull << 20) == 0) return number(value >> 20).text(" MiB");
    return number(value).text(" bytes");
  }
  Writer& percent(std::uint64_t ppm) {
    number(ppm / 10'000);
    std::uint64_t rest = ppm % 10'000;
    if (rest != 0) put('.');
    for (std::uint64_t place = 1000; rest != 0; rest %= place, place /= 10) put(static_cast<char>('0' + rest / place));
    return text(" %");
  }
  std::size_t length() const { return length_; }

 private:
  void put(char c) {
    if (length_ + 1 >= size_) return;
    buffer_[length_++] = c;
    buffer_[length_] = '\0';
  }
  char* buffer_;
  std::size_t size_;
  std::size_t length_ = 0;
};

void explain_grant(const PageFault& fault, Writer& out) {
  switch (fault.error) {
    case PageError::bad_name:
      out.text("share name ")
          .name(fault.what)
          .text(" is not usable: accepted are 1 to 63 of A-Z a-z 0-9 _ - . and no dot in front; choose another name");
      break;
    case PageError::bad_device_count:
      out.text("share ")
          .name(fault.what)
          .text(" names ")
          .number(fault.found)
          .text(" GPUs: accepted are 1 to ")
          .number(fault.wanted);
      break;
    case PageError::bad_uuid:
      out.text("GPU id ").name(fault.what).text(" is not one: accepted are GPU-... and MIG-... as nvidia-smi -L shows");
      break;
    case PageError::duplicate_uuid:
      out.text("GPU ").name(fault.what).text(" is named twice in one share: name it once");
      break;
    case PageError::bad_memory_limit:
      out.text("memory limit 0 on ")
          .name(fault.what)
          .text(": accepted is 1 byte or more; leave the limit out for none");
      break;
    case PageError::bad_ceiling:
      out.text("compute ceiling ")
          .percent(fault.found)
          .text(" on ")
          .name(fault.what)
          .text(": accepted is more than 0 % and at most 100 %");
      break;
    case PageError::bad_burst:
      out.text("compute burst ")
          .percent(fault.found)
          .text(" on ")
          .name(fault.what)
          .text(": accepted is more than the ceiling, ")
          .percent(fault.wanted)
          .text(", and at most 100 %");
      break;
    case PageError::bad_guarantee:
      out.text("compute guarantee ")
          .percent(fault.found)
          .text(" on ")
          .name(fault.what)
          .text(": accepted is at most the ceiling, ")
          .percent(fault.wanted);
      break;
    case PageError::bad_weight:
      out.text("weight ").number(fault.found).text(" on ").name(fault.what).text(": accepted are 1 to 1000");
      break;
    case PageError::bad_class:
      out.text("class ")
          .number(fault.found)
          .text(" on ")
          .name(fault.what)
          .text(": accepted are 0 (best effort), 1 (normal), 2 (latency)");
      break;
    case PageError::bad_level:
      out.text("level ").number(fault.found).text(" of share ").name(fault.what).text(": accepted are 0 to 4");
      break;
    default:
      out.text("fail policy ")
          .number(fault.found)
          .text(" of share ")
          .name(fault.what)
          .text(": accepted are 0 (open) and 1 (closed)");
      break;
  }
}

void explain_directory(const PageFault& fault, const char* base, Writer& out) {
  constexpr const char* kElsewhere = "; set HEADGATE_RUNTIME_DIR to a directory of your own";
  out.name(fault.what);
  if (base != nullptr && fault.what[0] != '/' && std::strcmp(fault.what, base) != 0) out.text(" in ").name(base);
  switch (fault.error) {
    case PageError::path_too_long: out.text(" is too long a path").text(kElsewhere); break;
    case PageError::relative_path:
      out.text(
          " is a relative path, which names other shares in each directory; set HEADGATE_RUNTIME_DIR (or "
          "XDG_RUNTIME_DIR) to a path that begins with /");
      break;
    case PageError::no_directory:
      out.text(" cannot be made: the directory above it does not exist; make it, or set HEADGATE_RUNTIME_DIR");
      break;
    case PageError::no_runtime_directory:
      out.text(fault.found != 0 ? " has no directory 'shares' in it" : " does not exist")
          .text(
              ", so it holds no share: headgate run makes both; if shares were made elsewhere, set "
              "HEADGATE_RUNTIME_DIR to that place");
      break;
    case PageError::foreign_owner:
      out.text(" belongs to uid ")
          .number(fault.found)
          .text(", accepted is only your own, ")
          .number(fault.wanted)
          .text(kElsewhere);
      break;
    case PageError::open_permissions:
      out.text(" has mode 0")
          .number(fault.found, 8)
          .text(", so others could change it; accepted is 0")
          .number(fault.wanted, 8)
          .text(": use chmod");
      break;
    case PageError::symbolic_link: out.text(" is a symbolic link, which is refused: remove it"); break;
    case PageError::not_a_file: out.text(" is of another kind than expected (file or directory): remove it"); break;
    case PageError::read_only: out.text(" lies on a read-only file system").text(kElsewhere); break;
    case PageError::no_space:
      out.text(" cannot be made: no space left on its file system; free some, or").text(kElsewhere + 1);
      break;
    case PageError::file_size_limit:
      out.text(" needs ")
          .number(fault.wanted)
          .text(" bytes, but your file size limit (ulimit -f) is ")
          .number(fault.found)
          .text("; raise the limit");
      break;
    case PageError::no_permission: out.text(" may not be opened or made by you").text(kElsewhere); break;
    default:
      if (fault.os_errno == EMFILE) {
        out.text(" cannot be opened: this process has as many files open as it may; raise the limit (ulimit -n)");
        break;
      }
      out.text(" cannot be opened or made (errno ").number(fault.os_errno).text(")").text(kElsewhere);
      break;
  }
}

void explain_pages(const PageFault& fault, const char* base, Writer& out) {
  switch (fault.error) {
    case PageError::not_found:
      out.text("there is no share ").name(fault.what).text(": headgate run --name NAME makes one");
      return;
    case PageError::pages_newer:
      out.text("pages are version ")
          .number(fault.found)
          .text(", this limiter knows ")
          .number(fault.wanted)
          .text(": update libheadgate.so");
      return;
    case PageError::pages_older:
      out.text("pages are version ")
          .number(fault.found)
          .text(", this limiter knows only ")
          .number(fault.wanted)
          .text(
              ": end the share's processes and start them with this headgate, or use the libheadgate.so that made it");
      return;
    default: break;
  }
  if (fault.error == PageError::pages_disagree) {
    out.text("the share's pages disagree about the ")
        .text(fault.what)
        .text(" (usage: ")
        .number(fault.found)
        .text(", policy: ")
        .number(fault.wanted)
        .text(")");
  } else {
    out.text("the share's page ").name(fault.what);
  }
  switch (fault.error) {
    case PageError::truncated:
      out.text(" is cut short: ").number(fault.found).text(" bytes of ").number(fault.wanted);
      break;
    case PageError::wrong_size:
      out.text(" has ").number(fault.found).text(" bytes, expected ").number(fault.wanted);
      break;
    case PageError::wrong_magic:
      out.text(" is not a page of headgate (it begins 0x").number(fault.found, 16).text(")");
      break;
    case PageError::page_missing: out.text(" is missing: it was removed"); break;
    case PageError::wrong_name: out.text(" is of another share than its directory says"); break;
    case PageError::unterminated: out.text(" holds a name without an end"); break;
    case PageError::pages_disagree: break;
    default: out.text(" has ").number(fault.found).text(" slots, expected ").number(fault.wanted); break;
  }
  out.text("; end the share's processes, remove its directory");
  if (base != nullptr) out.text(" (in ").name(base).text(")");
  out.text(" and start again");
}

void explain_difference(const PageFault& fault, Writer& out) {
  out.text("the share exists with other values: ").text(fault.what).text(" is ");
  const bool memory = std::strncmp(fault.what, "memory", 6) == 0 || std::strncmp(fault.what, "host", 4) == 0;
  const bool part = std::strncmp(fault.what, "compute", 7) == 0;
  const auto write = [&](std::uint64_t value) {
    if (memory) out.bytes(value);
    else if (part) out.percent(value);
    else out.number(value);
  };
  write(fault.found);
  out.text(", asked was ");
  write(fault.wanted);
  out.text("; ask for the same values or use another name");
}

}  // namespace

std::size_t explain(const PageFault& fault, char* buffer, std::size_t size, const char* base) {
  Writer out(buffer, size);
  if (fault.error == PageError::none) return out.text("nothing is wrong").length();
  if (fault.error == PageError::different_values) explain_difference(fault, out);
  else if (fault.error == PageError::already_exists)
    out.text("share ").name(fault.what).text(" exists already: join it with the same values, or choose another name");
  else if (fault.error == PageError::other_devices)
    out.text("the share exists with other GPUs: ")
        .name(fault.what)
        .text(" is not among them; ask for the same GPUs or use another name");
  else if (fault.error == PageError::draining)
    out.text("share ").name(fault.what).text(" is being drained: it takes no new process until its owner resumes it");
  else if (fault.error == PageError::slots_full)
    out.text("share ")
        .name(fault.what)
        .text(" has ")
        .number(fault.found)
        .text(" processes, which is the most: end one, or use another share");
  else if (fault.error == PageError::busy)
    out.name(fault.what)
        .text(" has been kept busy by another process for more than 5 s: it may be stopped; continue or end it");
  else if (fault.error == PageError::asks_first)
    out.text("share ")
        .name(fault.what)
        .text(" asks a scheduler about each process, which only headgated does: enter it with headgate run --share");
  else if (fault.error <= PageError::bad_fail_policy) explain_grant(fault, out);
  else if (fault.error <= PageError::os_error) explain_directory(fault, base, out);
  else explain_pages(fault, base, out);
  return out.length();
}

}  // namespace headgate::ledger
