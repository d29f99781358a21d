// A tenant that writes what it likes: into its share's usage page, and on its share's socket. Test program's children.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace headgate::e2e {

enum class Lie {
  none,  // enters, reserves 100 MiB, and stays
  words,  // random and edge values into every word of the usage page, its own slot's most often, and of its page of marks
  length,    // the page's file made shorter and longer, over and over
  bell,      // shuts its share's doorbell down
  quiet,     // takes what it has reserved out of the account
  unpaid,    // takes the GPU time that its share's other processes have held out of the account, over and over
  claims,    // every slot in the name of a child that has 60,000 mappings, and the page is not one of them
  messages,  // malformed, half-closed, never reading, with descriptors, in floods, on the tenant socket
};

// A child that enters the share in DIRECTORY by its socket, and then lies for ever. Returns its pid once it is inside
// and has begun; -1 if it could not enter.
pid_t start_liar(const std::string& directory, Lie lie, std::uint64_t seed);
void end_liar(pid_t liar);

}  // namespace headgate::e2e
