// What the simulated driver says to the MPS control daemon's stand-in: one SOCK_SEQPACKET message each way, over the
// `control` socket of CUDA_MPS_PIPE_DIRECTORY. The connection then stays for as long as the program is a client.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace headgate::sim::mps {

inline constexpr std::size_t kMaxMessage = 8192;

enum class Answer : std::uint32_t {
  accepted = 1,
  not_ready = 2,  // CUDA_ERROR_MPS_SERVER_NOT_READY: the server has a fault
  full = 3,       // CUDA_ERROR_MPS_MAX_CLIENTS_REACHED
};

// Sent by a program that wants to be a client; the tool sends command lines instead.
struct Hello {
  std::uint32_t magic = 0x48474d50;  // "HGMP"
  std::uint32_t percent = 100;       // of the SMs, by its own variable
};
struct Welcome {
  Answer answer = Answer::accepted;
  std::uint32_t percent = 100;  // what it may have
};
inline constexpr char kGoodbye = 'b';

// The tool's answer to a line: this byte, then what it prints.
inline constexpr char kPrinted = '=';

// A connection to the daemon of a pipe directory; -1 where none listens.
[[nodiscard]] int connect_to(const std::string& pipe_directory);

}  // namespace headgate::sim::mps
