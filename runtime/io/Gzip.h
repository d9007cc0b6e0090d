#ifndef MESHC_RUNTIME_DATA_GZIP_H
#define MESHC_RUNTIME_DATA_GZIP_H

#include "runtime/io/File.h"

namespace meshc::runtime {

/// The bytes of `file`: unpacked where they are in gzip, else as they are. No
/// more is unpacked than is read: a few packed bytes may stand for a thousand
/// times as many.
///
/// Errors, of the reader too: those of `file`; DamagedFile where gzip reports a
/// defect, which for its checksum and for bytes that follow shows at the end
/// alone. `path` is for the message.
Result<std::unique_ptr<ByteReader>> unpack(std::unique_ptr<ByteReader> file,
                                           const std::string &path);

} // namespace meshc::runtime

#endif
