#include "runtime/Devices/Arena.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

using namespace meshc::runtime;

static constexpr uint64_t hugePageBytes = uint64_t(2) << 20;

Arena::Arena(Arena &&other) noexcept
    : pages(std::exchange(other.pages, nullptr)),
      bytes(std::exchange(other.bytes, 0)), skew(other.skew) {}

Arena &Arena::operator=(Arena &&other) noexcept {
  std::swap(pages, other.pages);
  std::swap(bytes, other.bytes);
  std::swap(skew, other.skew);
  return *this;
}

Arena::~Arena() {
  if (pages)
    munmap(pages, bytes);
}

uint64_t Arena::getReservedBytes(uint64_t bytes, uint64_t skew) {
  // A whole number of pages, and at least one so that an empty arena has an
  // address. Many small devices take small pages.
  const uint64_t page = bytes + skew < hugePageBytes
                            ? uint64_t(sysconf(_SC_PAGESIZE))
                            : hugePageBytes;
  return ((bytes + skew) / page + 1) * page;
}

Result<Arena> Arena::create(uint64_t bytes, uint64_t skew) {
  bytes = getReservedBytes(bytes, skew);
  void *raw = mmap(nullptr, bytes + hugePageBytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED)
    return Error{ErrorCode::DoesNotFit,
                 fmt::format("cannot get {} bytes for one device: {}", bytes,
                             std::strerror(errno)),
                 ""};
  // Gives back what lies before and behind the aligned part.
  auto address = reinterpret_cast<uintptr_t>(raw);
  uintptr_t aligned =
      (address + hugePageBytes - 1) / hugePageBytes * hugePageBytes;
  if (aligned != address)
    munmap(raw, aligned - address);
  if (uintptr_t rest = address + hugePageBytes - aligned)
    munmap(reinterpret_cast<void *>(aligned + bytes), rest);
  auto *pages = reinterpret_cast<std::byte *>(aligned);
  // A refusal costs speed only.
  if (bytes >= hugePageBytes)
    madvise(pages, bytes, MADV_HUGEPAGE);
  return Arena(pages, bytes, skew);
}
