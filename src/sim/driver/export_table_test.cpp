// A program of the CUDA runtime gets a message that says why it cannot run here; see docs/runtime-programs.md.
#include "sim/driver/test_program.hpp"

namespace headgate::sim {
namespace {

class ExportTables : public Driver {};

TEST_F(ExportTables, NoneIsServedAndOneLineNamesTheRequested) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t program = start([ends] {
    ::dup2(ends[1], STDERR_FILENO);
    void* library = ::dlopen(HEADGATE_SIM_CUDA, RTLD_NOW);
    const auto ask = reinterpret_cast<CUresult (*)(const void**, const CUuuid*)>(::dlsym(library, "cuGetExportTable"));
    CUuuid id{};
    id.bytes[0] = 0x6b;
    const void* table = library;
    must(ask(&table, &id) == CUDA_ERROR_NOT_FOUND && table == nullptr, "no table");
    must(ask(&table, &id) == CUDA_ERROR_NOT_FOUND, "again");
    must(ask(nullptr, &id) == CUDA_ERROR_INVALID_VALUE && ask(&table, nullptr) == CUDA_ERROR_INVALID_VALUE, "nowhere");
  });
  ::close(ends[1]);
  std::string said;
  char part[256];
  for (ssize_t read = 0; (read = ::read(ends[0], part, sizeof part)) > 0;)
    said.append(part, static_cast<std::size_t>(read));
  ::close(ends[0]);
  EXPECT_EQ(finish(program), 0);
  EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;
  EXPECT_NE(said.find("CUDA runtime"), std::string::npos) << said;
  EXPECT_NE(said.find("table 6b000000000000000000000000000000"), std::string::npos) << said;
}

}  // namespace
}  // namespace headgate::sim
