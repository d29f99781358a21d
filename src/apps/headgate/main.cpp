// headgate: the command. Runs what its words say and returns an exit status that scripts can use.
#include "cli/commands.hpp"
#include "demo/demo.hpp"
#include "demo/self_test.hpp"

int main(int argc, char** argv) {
  using namespace headgate;
  return cli::perform(argc, argv,
                      {.proofs = {demo::demo_command(), demo::bench_command()}, .self_test = demo::self_test});
}
