#include "runtime/cpu/Arenas.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

using namespace meshc::runtime;

static constexpr uint64_t hugePageBytes = uint64_t(2) << 20;

Arenas::Arenas(Arenas &&other) noexcept { *this = std::move(other); }

Arenas &Arenas::operator=(Arenas &&other) noexcept {
  std::swap(pages, other.pages);
  std::swap(mappedBytes, other.mappedBytes);
  std::swap(stride, other.stride);
  std::swap(skew, other.skew);
  return *this;
}

Arenas::~Arenas() {
  if (pages)
    munmap(pages, mappedBytes);
}

uint64_t Arenas::getReservedBytes(uint64_t bytes, uint64_t skew) {
  // A whole number of pages, and at least one so that an empty arena has an
  // address. Many small devices take small pages.
  const uint64_t page = bytes + skew < hugePageBytes
                            ? uint64_t(sysconf(_SC_PAGESIZE))
                            : hugePageBytes;
  return ((bytes + skew) / page + 1) * page;
}

Result<Arenas> Arenas::create(int64_t count, uint64_t bytes, uint64_t skew) {
  Arenas arenas;
  arenas.stride = getReservedBytes(bytes, skew);
  arenas.skew = skew;
  uint64_t total = 0;
  errno = ENOMEM;
  void *raw = MAP_FAILED;
  if (!__builtin_mul_overflow(uint64_t(count), arenas.stride, &total) &&
      !__builtin_add_overflow(total, hugePageBytes, &arenas.mappedBytes))
    raw = mmap(nullptr, arenas.mappedBytes, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED)
    return Error{ErrorCode::DoesNotFit,
                 fmt::format("cannot get {} bytes for each of {} devices: {}",
                             arenas.stride, count, std::strerror(errno)),
                 ""};
  // Gives back what lies before the first huge page. Where that is refused, an
  // address has no memory behind it, since nobody touches it.
  auto address = reinterpret_cast<uintptr_t>(raw);
  const uintptr_t aligned =
      (address + hugePageBytes - 1) / hugePageBytes * hugePageBytes;
  if (aligned != address)
    munmap(raw, aligned - address);
  arenas.pages = reinterpret_cast<std::byte *>(aligned);
  arenas.mappedBytes -= aligned - address;
  // A refusal costs speed only.
  if (arenas.stride >= hugePageBytes)
    madvise(arenas.pages, total, MADV_HUGEPAGE);
  return arenas;
}
