#include "sim/ptx.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/whole_number.hpp"
#include "sim/fat_binary.hpp"
#include "sim/message.hpp"
#include "sim/ptx_lexer.hpp"
#include "sim/ptx_pragma.hpp"

namespace headgate::sim::ptx {
namespace {

struct Type {
  std::string_view name;
  Scalar scalar;
  std::uint32_t bytes;
};

constexpr Type kTypes[] = {
    {".b8", Scalar::opaque, 1},
    {".u8", Scalar::unsigned_integer, 1},
    {".s8", Scalar::signed_integer, 1},
    {".b16", Scalar::unsigned_integer, 2},
    {".u16", Scalar::unsigned_integer, 2},
    {".s16", Scalar::signed_integer, 2},
    {".f16", Scalar::opaque, 2},
    {".bf16", Scalar::opaque, 2},
    {".f16x2", Scalar::opaque, 4},
    {".bf16x2", Scalar::opaque, 4},
    {".b32", Scalar::unsigned_integer, 4},
    {".u32", Scalar::unsigned_integer, 4},
    {".s32", Scalar::signed_integer, 4},
    {".f32", Scalar::floating, 4},
    {".tf32", Scalar::opaque, 4},
    {".b64", Scalar::unsigned_integer, 8},
    {".u64", Scalar::unsigned_integer, 8},
    {".s64", Scalar::signed_integer, 8},
    {".f64", Scalar::floating, 8},
    {".b128", Scalar::opaque, 16},
    {".texref", Scalar::opaque, 8},
    {".samplerref", Scalar::opaque, 8},
    {".surfref", Scalar::opaque, 8},
};

constexpr std::uint64_t kLargestVariable = std::uint64_t{1} << 48;

const Type* find_type(std::string_view name) {
  const auto* found = std::ranges::find(kTypes, name, &Type::name);
  return found == std::end(kTypes) ? nullptr : found;
}

// A declared variable or parameter in any state space.
struct Variable {
  std::string name;
  Scalar scalar = Scalar::opaque;
  std::uint64_t bytes = 0;
  std::uint32_t alignment = 1;
  bool unsized = false;  // name[] without initialiser
  unsigned line = 0;     // on which it ends
};

class Parser {
 public:
  explicit Parser(std::string_view text) : lexer_(text) {}

  Result<Module> module() {
    TRY(advance());
    TRY(header());
    while (token_.kind != TokenKind::end) TRY(top_level());
    return std::move(module_);
  }

 private:
  Result<bool> advance() {
    token_ = TRY(lexer_.next());
    return true;
  }
  [[nodiscard]] std::unexpected<Error> expected(std::string_view what) const {
    if (token_.kind == TokenKind::end)
      return fail_at(token_.line, message("expected ", what, ", found the end of the text"));
    return fail_at(token_.line, message("expected ", what, ", found '", token_.text.substr(0, 60), "'"));
  }
  Result<bool> expect(std::string_view mark) {
    if (!token_.is(mark)) return expected(message("'", mark, "'"));
    return advance();
  }
  Result<std::string> word(std::string_view what) {
    if (token_.kind != TokenKind::word) return expected(what);
    std::string text(token_.text);
    TRY(advance());
    return text;
  }
  Result<std::uint64_t> number(std::string_view what, std::uint64_t most) {
    if (token_.kind != TokenKind::number) return expected(what);
    std::string_view digits = token_.text;
    int base = 10;
    if (digits.size() > 2 && digits[0] == '0' && (digits[1] | 0x20) == 'x') base = 16, digits.remove_prefix(2);
    if (digits.ends_with('U')) digits.remove_suffix(1);
    const auto value = whole_number(digits, base);
    if (!value || *value > most) {
      return fail_at(token_.line,
                     message(what, " is '", token_.text.substr(0, 60), "', not a whole number from 0 to ", most));
    }
    TRY(advance());
    return *value;
  }

  Result<bool> header() {
    if (!token_.is(".version")) return expected(".version, with which PTX begins");
    TRY(advance());
    const std::string_view text = token_.text;
    const std::size_t dot = text.find('.');
    if (token_.kind != TokenKind::number || dot == std::string_view::npos) return expected("a version such as 8.0");
    const auto major = whole_number<unsigned>(text.substr(0, dot)),
               minor = whole_number<unsigned>(text.substr(dot + 1));
    if (!major || !minor) return expected("a version such as 8.0");
    module_.version_major = *major;
    module_.version_minor = *minor;
    TRY(advance());
    if (!token_.is(".target")) return expected(".target after .version");
    TRY(advance());
    module_.target = TRY(word("a target such as sm_90"));
    while (token_.is(",")) {
      TRY(advance());
      TRY(word("a target option"));
    }
    if (!token_.is(".address_size")) return true;
    TRY(advance());
    module_.address_bits = static_cast<unsigned>(TRY(number("the address size", 64)));
    if (module_.address_bits != 64)
      return fail_at(token_.line, message(".address_size ", module_.address_bits, " is not served, 64 is"));
    return true;
  }

  Result<bool> top_level() {
    const auto linking = [&] {
      return token_.is(".visible") || token_.is(".extern") || token_.is(".weak") || token_.is(".common");
    };
    bool external = false;
    for (; linking(); TRY(advance())) external = external || token_.is(".extern");
    if (token_.is(".entry")) return entry();
    if (token_.is(".func")) return skip_function();
    if (token_.is(".global")) return globals(false, external);
    if (token_.is(".const")) return globals(true, external);
    if (token_.is(".shared") || token_.is(".local") || token_.is(".tex") || token_.is(".alias"))
      return skip_past(";", "';'");
    if (token_.is(".pragma")) return pragmas(module_pragmas_);
    if (token_.is(".file")) return skip_file();
    if (token_.is(".section")) return skip_section();
    if (token_.is("@")) return skip_old_dwarf();
    return expected("an entry, a function or a variable");
  }

  Result<bool> pragmas(std::vector<std::string>& into) {
    do {
      TRY(advance());
      if (token_.kind != TokenKind::string) return expected("a string after .pragma");
      into.emplace_back(token_.text);
      TRY(advance());
    } while (token_.is(","));
    return expect(";");
  }

  Result<bool> entry() {
    TRY(advance());
    const unsigned line = token_.line;
    Entry made;
    made.name = TRY(word("the entry's name"));
    if (token_.is("(")) TRY(parameters(made));
    made.pragmas = module_pragmas_;
    const std::size_t inherited = made.pragmas.size();
    while (!token_.is("{")) {
      if (token_.is(";")) return advance();  // a declaration
      TRY(entry_directive(made));
    }
    TRY(body(made));
    TRY(understand(made, inherited, line));
    if (module_.find_entry(made.name) != nullptr)
      return fail_at(line, message("entry ", made.name, " is defined twice"));
    module_.entries.push_back(std::move(made));
    return true;
  }

  // The entry's pragmas override those before it in the module, each setting separately.
  Result<bool> understand(Entry& made, std::size_t inherited, unsigned line) {
    const std::span<const std::string> all = made.pragmas;
    Behaviour outer;
    for (const std::string& text : all.first(inherited)) TRY(apply_pragma(text, made, outer, line));
    for (const std::string& text : all.subspan(inherited)) TRY(apply_pragma(text, made, made.behaviour, line));
    inherit_behaviour(outer, made.behaviour);
    return true;
  }

  Result<bool> entry_directive(Entry& made) {
    if (token_.is(".pragma")) return pragmas(made.pragmas);
    if (token_.is(".reqntid")) return dimensions(".reqntid", made.required_block);
    if (token_.is(".maxntid")) return dimensions(".maxntid", made.maximum_block);
    if (token_.kind != TokenKind::directive) return expected("a directive or '{' of the entry's body");
    TRY(advance());  // .minnctapersm 1, .maxnreg 32, .reqnctapercluster 2, 1, 1 and those of later versions
    while (token_.kind == TokenKind::number || token_.is(",")) TRY(advance());
    return true;
  }

  Result<bool> dimensions(std::string_view name, std::array<std::uint32_t, 3>& out) {
    TRY(advance());
    std::array<std::uint32_t, 3> read{1, 1, 1};
    for (std::size_t i = 0; i < read.size(); ++i) {
      read[i] = static_cast<std::uint32_t>(TRY(number(name, 1024)));
      if (!token_.is(",")) break;
      if (i + 1 < read.size()) TRY(advance());
    }
    if (std::ranges::count(read, 0u) != 0) return fail_at(token_.line, message(name, " has a dimension of 0"));
    out = read;
    return true;
  }

  Result<bool> parameters(Entry& made) {
    TRY(advance());
    while (!token_.is(")")) {
      if (!token_.is(".param")) return expected(".param");
      TRY(advance());
      const unsigned line = token_.line;
      const Variable variable = TRY(declaration(true));
      const std::uint64_t align = variable.alignment;
      const std::uint64_t offset = (made.parameter_bytes + align - 1) / align * align;
      if (variable.unsized || offset + variable.bytes > kMaxParameterBytes) {
        return fail_at(line,
                       message("the parameters of ", made.name, " take more than ", kMaxParameterBytes, " bytes"));
      }
      made.parameters.push_back({variable.name, variable.scalar, static_cast<std::uint32_t>(offset),
                                 static_cast<std::uint32_t>(variable.bytes), variable.alignment});
      made.parameter_bytes = static_cast<std::uint32_t>(offset + variable.bytes);
      if (!token_.is(",")) break;
      TRY(advance());
    }
    return expect(")");
  }

  // Type and one name: ".align 4 .b8 name[16]", ".u64 .ptr .global .align 16 name", ".v4 .f32 name".
  Result<Variable> declaration(bool parameter) {
    const Type* type = nullptr;
    std::uint32_t alignment = 0, vector = 1;
    while (token_.kind == TokenKind::directive) {
      if (token_.is(".align")) {
        TRY(advance());
        // After .ptr, the alignment is that of the pointee.
        const auto wanted = static_cast<std::uint32_t>(TRY(number(".align", 1U << 20)));
        if (!std::has_single_bit(wanted))
          return fail_at(token_.line, message(".align ", wanted, " is not a power of two"));
        if (!(parameter && type != nullptr)) alignment = wanted;
        continue;
      }
      if (const Type* named = find_type(token_.text)) type = named;
      if (token_.is(".v2")) vector = 2;
      if (token_.is(".v4")) vector = 4;
      const bool attribute = token_.is(".attribute");
      TRY(advance());
      if (attribute) TRY(skip_parentheses());
    }
    if (type == nullptr) return expected("a type such as .u32");
    type_ = {type->name, vector == 1 ? type->scalar : Scalar::opaque, type->bytes * vector};
    alignment_ = std::max(alignment, type_.bytes);
    return named_variable();
  }

  // Parses name, dimensions and initialiser of a variable of the type read last.
  Result<Variable> named_variable() {
    Variable made{
        .name = TRY(word("a variable's name")), .scalar = type_.scalar, .bytes = type_.bytes, .alignment = alignment_};
    if (token_.is("<")) TRY(register_range(made));
    bool array = false;
    while (token_.is("[")) {
      array = true;
      TRY(advance());
      if (token_.is("]")) {
        made.unsized = true;
      } else {
        const std::uint64_t count = TRY(number("an array size", kLargestVariable));
        if (count != 0 && made.bytes > kLargestVariable / count) {
          return fail_at(token_.line, message(made.name, " is larger than 2^48 bytes"));
        }
        made.bytes *= count;
      }
      TRY(expect("]"));
    }
    if (array) made.scalar = Scalar::opaque;
    if (token_.is("=")) {
      const std::uint64_t elements = TRY(initialiser());
      if (made.unsized) made.bytes *= elements, made.unsized = false;
    }
    if (made.unsized) made.bytes = 0;
    made.line = token_.line;
    return made;
  }

  Result<bool> register_range(Variable& made) {
    TRY(advance());
    made.bytes *= TRY(number("a register range", 1U << 20));
    return expect(">");
  }

  // Returns the number of elements at the outermost level of "= {1, 2, 3}"; 1 for "= 7". Bounded by the text's length.
  Result<std::uint64_t> initialiser() {
    TRY(advance());
    if (!token_.is("{")) {
      while (!token_.is(";") && !token_.is(",") && token_.kind != TokenKind::end) {
        TRY(advance());
        if (token_.is("(")) TRY(skip_parentheses());
      }
      return std::uint64_t{1};
    }
    std::uint64_t elements = 0, depth = 0;
    bool pending = false;
    do {
      if (token_.kind == TokenKind::end) return expected("'}' of an initialiser");
      if (token_.is("{")) pending = pending || depth == 1, ++depth;
      else if (token_.is("}")) --depth;
      else if (token_.is(",") && depth == 1) elements += std::exchange(pending, false);
      else pending = pending || depth == 1;
      TRY(advance());
    } while (depth > 0);
    return elements + pending;
  }

  Result<bool> globals(bool constant, bool external) {
    TRY(advance());
    while (token_.kind == TokenKind::directive && token_.text == ".global") TRY(advance());
    if (token_.kind == TokenKind::mark && token_.is("["))
      TRY(skip_past("]", "']'", true));  // .const[2], PTX before 2.2
    for (const Variable& variable : TRY(variables())) {
      if (variable.unsized && !external) return fail_at(variable.line, message(variable.name, " has no size"));
      module_.globals.push_back({variable.name, variable.bytes, variable.alignment, constant, external});
    }
    return true;
  }

  // ".u32 one, two[4];"
  Result<std::vector<Variable>> variables() {
    std::vector<Variable> all = {TRY(declaration(false))};
    while (token_.is(",")) {
      TRY(advance());
      all.push_back(TRY(named_variable()));
    }
    TRY(expect(";"));
    return all;
  }

  // Skips instructions; keeps pragmas and the sizes of .shared and .local.
  Result<bool> body(Entry& made) {
    const unsigned opened = token_.line;
    std::uint64_t depth = 0, shared = 0, local = 0;
    bool statement = true;
    do {
      if (token_.kind == TokenKind::end) return fail_at(opened, message("the body of ", made.name, " is never closed"));
      if (statement && token_.is(".pragma")) {
        TRY(pragmas(made.pragmas));
        continue;
      }
      if (statement && (token_.is(".shared") || token_.is(".local"))) {
        TRY(sized_space(token_.is(".shared") ? shared : local));
        continue;
      }
      if (token_.is("{")) ++depth;
      if (token_.is("}")) --depth;
      statement = token_.is("{") || token_.is("}") || token_.is(";") || token_.is(":");
      TRY(advance());
    } while (depth > 0);
    if (std::max(shared, local) > UINT32_MAX)
      return fail_at(opened, message(made.name, " wants more shared or local memory than there is"));
    made.shared_bytes = static_cast<std::uint32_t>(shared);
    made.local_bytes = static_cast<std::uint32_t>(local);
    return true;
  }

  Result<bool> sized_space(std::uint64_t& total) {
    TRY(advance());
    for (const Variable& variable : TRY(variables())) {
      total = (total + variable.alignment - 1) / variable.alignment * variable.alignment + variable.bytes;
      total = std::min(total, kLargestVariable);
    }
    return true;
  }

  Result<bool> skip_function() {
    while (!token_.is("{")) {
      if (token_.kind == TokenKind::end) return expected("the function's body or ';'");
      if (token_.is(";")) return advance();
      TRY(advance());
    }
    Entry scratch{.name = "a function", .parameters = {}, .pragmas = {}, .behaviour = {}};
    return body(scratch);
  }

  Result<bool> skip_past(std::string_view mark, std::string_view what, bool in_statement = false) {
    while (!token_.is(mark)) {
      if (token_.kind == TokenKind::end || (in_statement && token_.is(";"))) return expected(what);
      TRY(advance());
    }
    return advance();
  }

  Result<bool> skip_parentheses() {
    std::uint64_t depth = 0;
    do {
      if (token_.kind == TokenKind::end || token_.is(";")) return expected("')'");
      if (token_.is("(")) ++depth;
      else if (depth == 0) return expected("'('");
      if (token_.is(")")) --depth;
      TRY(advance());
    } while (depth > 0);
    return true;
  }

  // .file 1 "name", 1700000000, 1234
  Result<bool> skip_file() {
    TRY(advance());
    while (token_.kind == TokenKind::number || token_.kind == TokenKind::string || token_.is(",")) TRY(advance());
    return true;
  }

  // .section .debug_info { .b8 1, 2, label+4 ... }
  Result<bool> skip_section() {
    TRY(skip_past("{", "'{' of a section"));
    return skip_past("}", "'}' of a section");
  }

  // "@@DWARF .byte 1, 2": one line each.
  Result<bool> skip_old_dwarf() {
    const unsigned line = token_.line;
    while (token_.line == line && token_.kind != TokenKind::end) TRY(advance());
    return true;
  }

  Lexer lexer_;
  Token token_;
  Type type_{};
  std::uint32_t alignment_ = 1;
  std::vector<std::string> module_pragmas_;
  Module module_;
};

}  // namespace

ImageKind image_kind(const void* image) {
  const auto* bytes = static_cast<const unsigned char*>(image);
  if (bytes == nullptr || bytes[0] == 0) return ImageKind::empty;
  const auto starts = [bytes](std::initializer_list<unsigned char> magic) {
    std::size_t i = 0;
    return std::ranges::all_of(magic, [&](unsigned char expected) { return bytes[i++] == expected; });
  };
  if (starts({0x7f, 'E', 'L', 'F'})) return ImageKind::elf;
  if (starts({0x50, 0xed, 0x55, 0xba})) return ImageKind::fatbin;
  if (starts({0xb1, 0x43, 0x62, 0x46})) return ImageKind::fatbin_wrapper;
  const bool text = (bytes[0] >= ' ' && bytes[0] < 0x7f) || (bytes[0] >= '\t' && bytes[0] <= '\r');
  return text ? ImageKind::ptx : ImageKind::unknown;
}

std::string_view words_for(ImageKind kind) {
  switch (kind) {
    case ImageKind::ptx: return "PTX text";
    case ImageKind::elf: return "a cubin (ELF)";
    case ImageKind::fatbin: return "a fat binary";
    case ImageKind::fatbin_wrapper: return "a fat binary's wrapper";
    case ImageKind::empty: return "empty";
    case ImageKind::unknown: break;
  }
  return "neither PTX text nor a binary that we know";
}

Result<Module> parse(std::string_view text) { return Parser(text).module(); }

Result<Module> parse_image(const void* image) {
  const ImageKind kind = image_kind(image);
  if (kind == ImageKind::ptx) return parse(static_cast<const char*>(image));
  if (kind == ImageKind::fatbin || kind == ImageKind::fatbin_wrapper) {
    const void* const container = kind == ImageKind::fatbin ? image : container_of_wrapper(image);
    if (image_kind(container) == ImageKind::fatbin) {
      if (const auto text = ptx_of_container(container)) return parse(*text);
    }
  }
  const ErrorCode code =
      kind == ImageKind::empty || kind == ImageKind::unknown ? ErrorCode::usage : ErrorCode::unsupported;
  return fail(
      code, message("the module image is ", words_for(kind)),
      "the simulated GPU loads PTX, as text or in a fat binary, there plain or packed with LZ4: compile with nvcc "
      "-ptx, or -gencode arch=compute_90,code=compute_90 --compress-mode=none");
}

const Entry* Module::find_entry(std::string_view name) const {
  const auto found = std::ranges::find(entries, name, &Entry::name);
  return found == entries.end() ? nullptr : &*found;
}

const Global* Module::find_global(std::string_view name) const {
  const auto found = std::ranges::find(globals, name, &Global::name);
  return found == globals.end() ? nullptr : &*found;
}

}  // namespace headgate::sim::ptx
