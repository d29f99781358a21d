#include "node/sealed_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <utility>

namespace headgate::node {
namespace {

constexpr int kSealFutureWrite = 0x10;  // linux/fcntl.h since 5.1; older C libraries lack it
constexpr int kLengthSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

}  // namespace

SealedMemory::SealedMemory(const char* name, std::size_t bytes, Theirs theirs) : bytes_(bytes) {
  UniqueFd file(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file || ::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) return;
  void* const mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (mapped == MAP_FAILED) return;
  at_ = mapped;
  file_ = std::move(file);
  if (theirs == Theirs::to_write) {
    ::fcntl(file_.get(), F_ADD_SEALS, kLengthSeals);
    return;
  }
  // Seal after our own mapping, which stays writable. A kernel that does not know the last seal takes the others.
  ::fchmod(file_.get(), 0400);
  if (::fcntl(file_.get(), F_ADD_SEALS, kLengthSeals | kSealFutureWrite) != 0)
    ::fcntl(file_.get(), F_ADD_SEALS, kLengthSeals);
  // Without /proc the sealed descriptor itself is handed out.
  theirs_ = UniqueFd(::open(("/proc/self/fd/" + std::to_string(file_.get())).c_str(), O_RDONLY | O_CLOEXEC));
}

SealedMemory::~SealedMemory() {
  if (at_ != nullptr) ::munmap(at_, bytes_);
}

SealedMemory::SealedMemory(SealedMemory&& other) noexcept { *this = std::move(other); }

SealedMemory& SealedMemory::operator=(SealedMemory&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(theirs_, other.theirs_);
  std::swap(at_, other.at_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace headgate::node
