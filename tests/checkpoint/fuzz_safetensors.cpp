/// libFuzzer's target for headers of safetensors: whatever a file says, it is
/// refused, or its tensors cover it.

#include "runtime/checkpoint/Safetensors.h"

#include <cstdlib>
#include <cstring>

using namespace meshc;
using namespace meshc::runtime;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Result<SafetensorsHeader> header = readSafetensorsHeader(
      [&](uint64_t place, std::span<std::byte> target) {
        if (place > size || target.size() > size - place)
          std::abort();
        std::memcpy(target.data(), data + place, target.size());
        return Status::success();
      },
      size, "file");
  if (!header)
    return 0;
  uint64_t place = header->bytes;
  for (const SafetensorsEntry &entry : header->entries) {
    if (entry.begin != place || entry.end < place)
      std::abort();
    place = entry.end;
  }
  if (place != size)
    std::abort();
  return 0;
}
