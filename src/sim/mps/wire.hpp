// Protocol between the simulated driver and the MPS control daemon's stand-in: one SOCK_SEQPACKET message each way,
// over the `control` socket of CUDA_MPS_PIPE_DIRECTORY. The connection then stays open while the program is a client.
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

// Sent by a program that wants to become a client; the tool sends command lines instead.
struct Hello {
  std::uint32_t magic = 0x48474d50;  // "HGMP"
  std::uint32_t percent = 100;       // of the SMs, from the program's variable
};
struct Welcome {
  Answer answer = Answer::accepted;
  std::uint32_t percent = 100;  // its limit
};
inline constexpr char kGoodbye = 'b';

// The reply to a command line: this byte, then the text to print.
inline constexpr char kPrinted = '=';

// Connects to the daemon of a pipe directory; returns -1 if none listens.
[[nodiscard]] int connect_to(const std::string& pipe_directory);

}  // namespace headgate::sim::mps
