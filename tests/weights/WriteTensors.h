#ifndef MESHC_TESTS_WEIGHTS_WRITETENSORS_H
#define MESHC_TESTS_WEIGHTS_WRITETENSORS_H

#include "runtime/checkpoint/Safetensors.h"
#include "runtime/data/Values.h"
#include "tests/runtime/LinearModel.h"

#include <string>

namespace meshc::runtime::test {

/// Writes a safetensors file of arrays, each with its name before it.
template <typename Tensors>
void writeTensors(const std::string &path, const Tensors &tensors) {
  SafetensorsHeader header;
  for (const auto &[name, array] : tensors)
    header.entries.push_back({name, array.element, array.shape});
  std::string text = layOut(header);
  for (const auto &[name, array] : tensors)
    text.append(reinterpret_cast<const char *>(array.data.data()),
                array.data.size());
  writeBytes(path, text);
}

} // namespace meshc::runtime::test

#endif
