#include "runtime/cuda/ProductTables.h"

#include <algorithm>
#include <cassert>

using namespace meshc::runtime;
using namespace meshc::runtime::cuda;

DevicePointer ProductTables::reserve(uint64_t bytes) {
  assert(bytes % sizeof(uint64_t) == 0 && "tables are of addresses");
  const DevicePointer table = address + getBytes();
  words.resize(words.size() + bytes / sizeof(uint64_t));
  return table;
}

void ProductTables::set(DevicePointer table,
                        const std::vector<uint64_t> &addresses) {
  const uint64_t first = (table - address) / sizeof(uint64_t);
  assert(first + addresses.size() <= words.size() && "it was reserved");
  std::copy(addresses.begin(), addresses.end(),
            words.begin() + ptrdiff_t(first));
}

Status ProductTables::upload(const Driver &driver, Stream stream) const {
  if (words.empty())
    return Status::success();
  MESHC_RETURN_IF_ERROR(
      driver.memcpyHtoDAsync(address, words.data(), getBytes(), stream));
  return driver.streamSynchronize(stream);
}
