#include "Driver.h"

#include <cstring>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

using namespace meshc::emulation;

namespace {

constexpr size_t pageBytes = 4096;
/// Every allocation of the real driver is aligned so (CUDA C++ Programming
/// Guide, "Device Memory Accesses").
constexpr size_t alignment = 256;
constexpr unsigned char guardByte = 0xA5;
/// All ones is a NaN in each of the four floating-point types.
constexpr unsigned char poisonByte = 0xFF;
constexpr size_t poisonedBytes = 1 << 20;

size_t roundUp(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

/// A file of poison, as long as `poisonedBytes`; -1 if there can be none.
int openPoison() {
  const std::string poison(poisonedBytes, char(poisonByte));
  const int file = memfd_create("meshc-poison", MFD_CLOEXEC);
  if (file >= 0 && write(file, poison.data(), poison.size()) !=
                       static_cast<ssize_t>(poison.size())) {
    close(file);
    return -1;
  }
  return file;
}

/// Of large memory, such as a workspace of 32 MiB, most is never touched: its
/// pages are those of one file until they are written.
void fillWithPoison(unsigned char *data, size_t bytes) {
  static const int poison = openPoison();
  unsigned char *const end = data + bytes;
  unsigned char *next = data;
  if (bytes > 2 * poisonedBytes) {
    next += -reinterpret_cast<uintptr_t>(data) % pageBytes;
    std::memset(data, poisonByte, next - data);
    while (size_t(end - next) >= poisonedBytes &&
           mmap(next, poisonedBytes, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_FIXED, poison, 0) != MAP_FAILED)
      next += poisonedBytes;
  }
  std::memset(next, poisonByte, end - next);
}

} // namespace

CUresult Memory::allocate(int device, size_t bytes, CUdeviceptr &address) {
  size_t space = roundUp(bytes, alignment);
  if (space > getEnvironment().memoryBytes - getUsed(device))
    return CUDA_ERROR_OUT_OF_MEMORY;
  size_t inside = roundUp(space, pageBytes), all = inside + 2 * pageBytes;
  void *mapping = mmap(nullptr, all, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED)
    return CUDA_ERROR_OUT_OF_MEMORY;
  auto *begin = static_cast<unsigned char *>(mapping) + pageBytes;
  if (mprotect(begin, inside, PROT_READ | PROT_WRITE)) {
    munmap(mapping, all);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  unsigned char *data = begin + inside - space;
  std::memset(begin, guardByte, data - begin);
  fillWithPoison(data, bytes);
  std::memset(data + bytes, guardByte, space - bytes);
  address = reinterpret_cast<CUdeviceptr>(data);
  allocations[address] = {device, bytes, static_cast<unsigned char *>(mapping),
                          all};
  return CUDA_SUCCESS;
}

CUresult Memory::release(CUdeviceptr address) {
  auto found = allocations.find(address);
  if (found == allocations.end())
    return CUDA_ERROR_INVALID_VALUE;
  munmap(found->second.mapping, found->second.mappingBytes);
  allocations.erase(found);
  return CUDA_SUCCESS;
}

const Memory::Allocation *Memory::find(CUdeviceptr address, size_t bytes,
                                       CUdeviceptr *base) const {
  auto next = allocations.upper_bound(address);
  if (next == allocations.begin())
    return nullptr;
  const auto &[begin, allocation] = *--next;
  size_t from = address - begin;
  if (from > allocation.bytes || bytes > allocation.bytes - from)
    return nullptr;
  if (base)
    *base = begin;
  return &allocation;
}

std::string Memory::checkGuard(CUdeviceptr base,
                               const Allocation &allocation) const {
  auto *data = reinterpret_cast<const unsigned char *>(base);
  const unsigned char *begin = allocation.mapping + pageBytes;
  const unsigned char *end =
      allocation.mapping + allocation.mappingBytes - pageBytes;
  auto check = [&](const unsigned char *from, const unsigned char *to) {
    for (; from < to; ++from)
      if (*from != guardByte)
        return "byte " + std::to_string(from - data) + " of an allocation of " +
               std::to_string(allocation.bytes) + " bytes was written";
    return std::string();
  };
  std::string before = check(begin, data);
  return before.empty() ? check(data + allocation.bytes, end) : before;
}

std::string Memory::checkGuards() const {
  for (const auto &[base, allocation] : allocations)
    if (std::string broken = checkGuard(base, allocation); !broken.empty())
      return broken;
  return "";
}

size_t Memory::getUsed(int device) const {
  size_t used = 0;
  for (const auto &[base, allocation] : allocations)
    if (allocation.device == device)
      used += roundUp(allocation.bytes, alignment);
  return used;
}

bool Memory::isPinned(const void *address, size_t bytes) const {
  auto begin = reinterpret_cast<uintptr_t>(address);
  auto next = pinned.upper_bound(begin);
  if (next == pinned.begin())
    return false;
  --next;
  size_t from = begin - next->first;
  return from <= next->second.bytes && bytes <= next->second.bytes - from;
}
