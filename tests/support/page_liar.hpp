// A child of the test program that acts as a tenant and writes arbitrary data into its share's usage page and socket.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace headgate::e2e {

enum class Lie {
  none,      // joins, reserves 100 MiB, and stays
  words,     // random and edge values in all words of the usage page, mostly its own slot's, and of its page of marks
  length,    // repeatedly makes the page's file shorter and longer
  bell,      // shuts its share's doorbell down
  quiet,     // removes what it has reserved from the account
  unpaid,    // repeatedly removes the GPU time of the share's other processes from the account
  claims,    // claims every slot for a child with 60,000 mappings that does not map the page
  messages,  // on the tenant socket: malformed, half-closed, never reading, with descriptors, in floods
};

// Starts a child that joins the share in DIRECTORY by its socket and then lies until it is ended. Returns its pid once
// it has begun; -1 if it could not join.
pid_t start_liar(const std::string& directory, Lie lie, std::uint64_t seed);
void end_liar(pid_t liar);

}  // namespace headgate::e2e
