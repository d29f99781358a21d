#include "sim/ptx.hpp"

#include <algorithm>
#include <utility>

#include "base/whole_number.hpp"
#include "sim/message.hpp"
#include "sim/ptx_pragma.hpp"
#include "sim/ptx_variables.hpp"

namespace headgate::sim::ptx {
namespace {

class Parser : VariableReader {
 public:
  explicit Parser(std::string_view text) : VariableReader(text) {}

  Result<Module> module() {
    TRY(advance());
    TRY(header());
    while (token_.kind != TokenKind::end) TRY(top_level());
    return std::move(module_);
  }

 private:
  Result<void> header() {
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
    if (!token_.is(".address_size")) return {};
    TRY(advance());
    module_.address_bits = static_cast<unsigned>(TRY(number("the address size", 64)));
    if (module_.address_bits != 64)
      return fail_at(token_.line, message(".address_size ", module_.address_bits, " is not served, 64 is"));
    return {};
  }

  Result<void> top_level() {
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

  Result<void> pragmas(std::vector<std::string>& into) {
    do {
      TRY(advance());
      if (token_.kind != TokenKind::string) return expected("a string after .pragma");
      into.emplace_back(token_.text);
      TRY(advance());
    } while (token_.is(","));
    return expect(";");
  }

  Result<void> entry() {
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
    return {};
  }

  // The entry's pragmas override those before it in the module, each setting separately.
  Result<void> understand(Entry& made, std::size_t inherited, unsigned line) {
    const std::span<const std::string> all = made.pragmas;
    Behaviour outer;
    for (const std::string& text : all.first(inherited)) TRY(apply_pragma(text, made, outer, line));
    for (const std::string& text : all.subspan(inherited)) TRY(apply_pragma(text, made, made.behaviour, line));
    inherit_behaviour(outer, made.behaviour);
    return {};
  }

  Result<void> entry_directive(Entry& made) {
    if (token_.is(".pragma")) return pragmas(made.pragmas);
    if (token_.is(".reqntid")) return dimensions(".reqntid", made.required_block);
    if (token_.is(".maxntid")) return dimensions(".maxntid", made.maximum_block);
    if (token_.kind != TokenKind::directive) return expected("a directive or '{' of the entry's body");
    TRY(advance());  // .minnctapersm 1, .maxnreg 32, .reqnctapercluster 2, 1, 1 and those of later versions
    while (token_.kind == TokenKind::number || token_.is(",")) TRY(advance());
    return {};
  }

  Result<void> dimensions(std::string_view name, std::array<std::uint32_t, 3>& out) {
    TRY(advance());
    std::array<std::uint32_t, 3> read{1, 1, 1};
    for (std::size_t i = 0; i < read.size(); ++i) {
      read[i] = static_cast<std::uint32_t>(TRY(number(name, 1024)));
      if (!token_.is(",")) break;
      if (i + 1 < read.size()) TRY(advance());
    }
    if (std::ranges::count(read, 0u) != 0) return fail_at(token_.line, message(name, " has a dimension of 0"));
    out = read;
    return {};
  }

  Result<void> parameters(Entry& made) {
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

  Result<void> globals(bool constant, bool external) {
    TRY(advance());
    while (token_.kind == TokenKind::directive && token_.text == ".global") TRY(advance());
    if (token_.kind == TokenKind::mark && token_.is("["))
      TRY(skip_past("]", "']'", true));  // .const[2], PTX before 2.2
    for (const Variable& variable : TRY(variables())) {
      if (variable.unsized && !external) return fail_at(variable.line, message(variable.name, " has no size"));
      module_.globals.push_back({variable.name, variable.bytes, variable.alignment, constant, external});
    }
    return {};
  }

  // Skips instructions; keeps pragmas and the sizes of .shared and .local.
  Result<void> body(Entry& made) {
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
    return {};
  }

  Result<void> sized_space(std::uint64_t& total) {
    TRY(advance());
    for (const Variable& variable : TRY(variables())) {
      total = (total + variable.alignment - 1) / variable.alignment * variable.alignment + variable.bytes;
      total = std::min(total, kLargestVariable);
    }
    return {};
  }

  Result<void> skip_function() {
    while (!token_.is("{")) {
      if (token_.kind == TokenKind::end) return expected("the function's body or ';'");
      if (token_.is(";")) return advance();
      TRY(advance());
    }
    Entry scratch{.name = "a function", .parameters = {}, .pragmas = {}, .behaviour = {}};
    return body(scratch);
  }

  // .file 1 "name", 1700000000, 1234
  Result<void> skip_file() {
    TRY(advance());
    while (token_.kind == TokenKind::number || token_.kind == TokenKind::string || token_.is(",")) TRY(advance());
    return {};
  }

  // .section .debug_info { .b8 1, 2, label+4 ... }
  Result<void> skip_section() {
    TRY(skip_past("{", "'{' of a section"));
    return skip_past("}", "'}' of a section");
  }

  // "@@DWARF .byte 1, 2": one line each.
  Result<void> skip_old_dwarf() {
    const unsigned line = token_.line;
    while (token_.line == line && token_.kind != TokenKind::end) TRY(advance());
    return {};
  }

  std::vector<std::string> module_pragmas_;
  Module module_;
};

}  // namespace

Result<Module> parse(std::string_view text) { return Parser(text).module(); }

const Entry* Module::find_entry(std::string_view name) const {
  const auto found = std::ranges::find(entries, name, &Entry::name);
  return found == entries.end() ? nullptr : &*found;
}

const Global* Module::find_global(std::string_view name) const {
  const auto found = std::ranges::find(globals, name, &Global::name);
  return found == globals.end() ? nullptr : &*found;
}

}  // namespace headgate::sim::ptx
