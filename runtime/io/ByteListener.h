#ifndef MESHC_RUNTIME_IO_BYTELISTENER_H
#define MESHC_RUNTIME_IO_BYTELISTENER_H

#include <cstdint>
#include <functional>

namespace meshc::runtime {

/// Is told how many bytes of all, of a file for example, were read or written
/// so far.
using ByteListener = std::function<void(uint64_t bytes, uint64_t allBytes)>;

} // namespace meshc::runtime

#endif
