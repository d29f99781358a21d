// Turns a fault into a sentence: what was wrong, the value, what is accepted, what to do.
#include <cerrno>
#include <string_view>

#include "guest/bare/text.hpp"
#include "guest/ledger/pages.hpp"

namespace headgate::ledger {
namespace {

// In a sentence, braces stand for a part of the fault:
//   {n} its name, quoted    {w} its name, raw    {d} its name and the runtime directory
//   {f} {t} the value found, the one wanted;     {F} {T} the same in percent;    {o} {O} octal;    {x} hexadecimal
//   {v} {V} the same as the field in {w} is shown;    {e} errno
//   {p} the page of that name;    {s} what the runtime directory lacks
//   {h} and {r}: the advice to set another runtime directory, or to remove the share's
struct Sentence {
  PageError error;
  const char* text;
};

constexpr Sentence kSentences[] = {
    {PageError::none, "nothing is wrong"},
    {PageError::bad_name,
     "share name {n} is not usable: accepted are 1 to 63 of A-Z a-z 0-9 _ - . and no dot in front; choose another "
     "name"},
    {PageError::bad_device_count, "share {n} names {f} GPUs: accepted are 1 to {t}"},
    {PageError::bad_uuid, "GPU id {n} is not one: accepted are GPU-... and MIG-... as nvidia-smi -L shows"},
    {PageError::duplicate_uuid, "GPU {n} is named twice in one share: name it once"},
    {PageError::bad_memory_limit, "memory limit 0 on {n}: accepted is 1 byte or more; leave the limit out for none"},
    {PageError::bad_ceiling, "compute ceiling {F} on {n}: accepted is more than 0 % and at most 100 %"},
    {PageError::bad_burst, "compute burst {F} on {n}: accepted is more than the ceiling, {T}, and at most 100 %"},
    {PageError::bad_guarantee, "compute guarantee {F} on {n}: accepted is at most the ceiling, {T}"},
    {PageError::bad_weight, "weight {f} on {n}: accepted are 1 to 1000"},
    {PageError::bad_class, "class {f} on {n}: accepted are 0 (best effort), 1 (normal), 2 (latency)"},
    {PageError::bad_level, "level {f} of share {n}: accepted are 0 to 4"},
    {PageError::bad_fail_policy, "fail policy {f} of share {n}: accepted are 0 (open) and 1 (closed)"},

    {PageError::path_too_long, "{d} is too long a path{h}"},
    {PageError::relative_path,
     "{d} is a relative path, which names other shares in each directory; set HEADGATE_RUNTIME_DIR (or "
     "XDG_RUNTIME_DIR) to a path that begins with /"},
    {PageError::no_directory,
     "{d} cannot be made: the directory above it does not exist; make it, or set HEADGATE_RUNTIME_DIR"},
    {PageError::no_runtime_directory,
     "{d} {s}, so it holds no share: headgate run makes both; if shares were made elsewhere, set HEADGATE_RUNTIME_DIR "
     "to that place"},
    {PageError::foreign_owner, "{d} belongs to uid {f}, accepted is only your own, {t}{h}"},
    {PageError::open_permissions, "{d} has mode 0{o}, so others could change it; accepted is 0{O}: use chmod"},
    {PageError::symbolic_link, "{d} is a symbolic link, which is refused: remove it"},
    {PageError::not_a_file, "{d} is of another kind than expected (file or directory): remove it"},
    {PageError::read_only, "{d} lies on a read-only file system{h}"},
    {PageError::no_space,
     "{d} cannot be made: no space left on its file system; free some, or set HEADGATE_RUNTIME_DIR to a directory of "
     "your own"},
    {PageError::file_size_limit, "{d} needs {t} bytes, but your file size limit (ulimit -f) is {f}; raise the limit"},
    {PageError::no_permission, "{d} may not be opened or made by you{h}"},
    {PageError::os_error, "{d} cannot be opened or made (errno {e}){h}"},

    {PageError::not_found, "there is no share {n}: headgate run --name NAME makes one"},
    {PageError::page_missing, "{p} is missing: it was removed{r}"},
    {PageError::truncated, "{p} is cut short: {f} bytes of {t}{r}"},
    {PageError::wrong_size, "{p} has {f} bytes, expected {t}{r}"},
    {PageError::wrong_magic, "{p} is not a page of headgate (it begins 0x{x}){r}"},
    {PageError::pages_newer, "pages are version {f}, this limiter knows {t}: update libheadgate.so"},
    {PageError::pages_older,
     "pages are version {f}, this limiter knows only {t}: end the share's processes and start them with this headgate, "
     "or use the libheadgate.so that made it"},
    {PageError::wrong_name, "{p} is of another share than its directory says{r}"},
    {PageError::unterminated, "{p} holds a name without an end{r}"},
    {PageError::pages_disagree, "the share's pages disagree about the {w} (usage: {f}, policy: {t}){r}"},
    {PageError::bad_slot_count, "{p} has {f} slots, expected {t}{r}"},

    {PageError::already_exists, "share {n} exists already: join it with the same values, or choose another name"},
    {PageError::different_values,
     "the share exists with other values: {w} is {v}, asked was {V}; ask for the same values or use another name"},
    {PageError::other_devices,
     "the share exists with other GPUs: {n} is not among them; ask for the same GPUs or use another name"},
    {PageError::slots_full, "share {n} has {f} processes, which is the most: end one, or use another share"},
    {PageError::draining, "share {n} is being drained: it takes no new process until its owner resumes it"},
    {PageError::busy,
     "{n} has been kept busy by another process for more than 5 s: it may be stopped; continue or end it"},
    {PageError::asks_first,
     "share {n} asks a scheduler about each process, which only headgated does: enter it with headgate run --share"},
};

const char* sentence_of(const PageFault& fault) {
  if (fault.error == PageError::os_error && fault.os_errno == EMFILE)
    return "{d} cannot be opened: this process has as many files open as it may; raise the limit (ulimit -n)";
  for (const Sentence& sentence : kSentences)
    if (sentence.error == fault.error) return sentence.text;
  return "";
}

// Names may come from a hostile page: control characters must not reach the terminal.
void add_name(bare::Text& out, const char* name) {
  out.add('"');
  for (; *name != '\0'; ++name) out.add(*name >= ' ' && *name < 127 ? *name : '?');
  out.add('"');
}

void add_octal(bare::Text& out, std::uint64_t value) {
  if (value >= 8) add_octal(out, value / 8);
  out.add(static_cast<char>('0' + value % 8));
}

void add_bytes(bare::Text& out, std::uint64_t value) {
  if (value == kNoMemoryLimit) out.add("no limit");
  else if (value != 0 && value % (1ull << 30) == 0) out.add_decimal(value >> 30).add(" GiB");
  else if (value != 0 && value % (1ull << 20) == 0) out.add_decimal(value >> 20).add(" MiB");
  else out.add_decimal(value).add(" bytes");
}

void add_percent(bare::Text& out, std::uint64_t ppm) {
  out.add_decimal(ppm / 10'000);
  std::uint64_t rest = ppm % 10'000;
  if (rest != 0) out.add('.');
  for (std::uint64_t place = 1000; rest != 0; rest %= place, place /= 10)
    out.add(static_cast<char>('0' + rest / place));
  out.add(" %");
}

void add_value(bare::Text& out, const PageFault& fault, std::uint64_t value) {
  const std::string_view field(fault.what);
  if (field.starts_with("memory") || field.starts_with("host")) add_bytes(out, value);
  else if (field.starts_with("compute")) add_percent(out, value);
  else out.add_decimal(value);
}

void add_part(bare::Text& out, char part, const PageFault& fault, const char* base) {
  switch (part) {
    case 'n': return add_name(out, fault.what);
    case 'd':
      add_name(out, fault.what);
      if (base == nullptr || fault.what[0] == '/' || std::string_view(fault.what) == base) return;
      out.add(" in ");
      return add_name(out, base);
    case 'F': return add_percent(out, fault.found);
    case 'T': return add_percent(out, fault.wanted);
    case 'o': return add_octal(out, fault.found);
    case 'O': return add_octal(out, fault.wanted);
    case 'v': return add_value(out, fault, fault.found);
    case 'V': return add_value(out, fault, fault.wanted);
    case 'p': out.add("the share's page "); return add_name(out, fault.what);
    case 'r':
      out.add("; end the share's processes, remove its directory");
      if (base != nullptr) {
        out.add(" (in ");
        add_name(out, base);
        out.add(')');
      }
      out.add(" and start again");
      return;
    case 'w': out.add(fault.what); break;
    case 'f': out.add_decimal(fault.found); break;
    case 't': out.add_decimal(fault.wanted); break;
    case 'x': out.add_hex(fault.found); break;
    case 'e': out.add_signed(fault.os_errno); break;
    case 's': out.add(fault.found != 0 ? "has no directory 'shares' in it" : "does not exist"); break;
    case 'h': out.add("; set HEADGATE_RUNTIME_DIR to a directory of your own"); break;
    default: break;
  }
}

}  // namespace

std::size_t explain(const PageFault& fault, char* buffer, std::size_t size, const char* base) {
  bare::Text out({buffer, size});
  for (const char* at = sentence_of(fault); *at != '\0'; ++at) {
    if (*at != '{') {
      out.add(*at);
      continue;
    }
    add_part(out, at[1], fault, base);
    at += 2;
  }
  return out.size();
}

}  // namespace headgate::ledger
