#ifndef MESHC_RUNTIME_SAMPLES_IMAGEFILE_H
#define MESHC_RUNTIME_SAMPLES_IMAGEFILE_H

#include "runtime/exec/Error.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace meshc::runtime {

/// What an image has to be: 1 channel is grey, 3 are red, green, blue.
struct ImageSize {
  int64_t rows = 0, columns = 0, channels = 1;
};

/// The bytes of an image, row by row, channels last, as they are in the file:
/// no gamma, no colour profile; what a pixel covers is left out. Grey images
/// have three equal channels where three are asked for.
/// Four channels, cyan to black as printers have them, become three.
/// Errors: CannotRead; WrongData where it has another size, colours where one
/// channel is asked for, or more than 8 bits a channel; DamagedFile.
Result<std::vector<std::byte>> readPng(const std::string &path,
                                       const ImageSize &size);
Result<std::vector<std::byte>> readJpeg(const std::string &path,
                                        const ImageSize &size);
/// The same of either, by what it is and not by its name. Errors: WrongData,
/// too, where it is of another kind.
Result<std::vector<std::byte>> readImage(const std::string &path,
                                         const ImageSize &size);

} // namespace meshc::runtime

#endif
