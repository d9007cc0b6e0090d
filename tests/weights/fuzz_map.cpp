/// libFuzzer's target for maps: whatever a text says, it is refused, or its
/// parts tile their parameters, and their elements lie in their tensors.

#include "runtime/weights/StoredPart.h"

#include <cstdlib>

using namespace meshc;
using namespace meshc::runtime;

static exec::VariableT makeParameter(const char *name) {
  exec::VariableT parameter;
  parameter.name = name;
  parameter.layout = std::make_unique<exec::TensorLayoutT>();
  int64_t size = 2;
  for (const char *dim : {"a", "b", "c", "d"}) {
    auto each = std::make_unique<exec::DimShardingT>();
    each->name = dim;
    each->size = size++;
    parameter.layout->dims.push_back(std::move(each));
  }
  return parameter;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Result<NameMap> map =
      parseNameMap({reinterpret_cast<const char *>(data), size}, "map");
  if (!map)
    return 0;
  static const exec::VariableT variables[] = {makeParameter("ab"),
                                              makeParameter("c")};
  const exec::VariableT *parameters[] = {&variables[0], &variables[1]};
  Result<std::vector<StoredParameter>> stored = applyNames(&*map, parameters);
  if (!stored)
    return 0;
  for (const StoredParameter &parameter : *stored)
    for (const StoredPart &part : parameter.parts) {
      int64_t elements = 1, last = part.first;
      for (int64_t length : part.shape)
        elements *= length;
      for (size_t i = 0; i < part.box.size(); ++i)
        last += (part.box[i].count - 1) * part.strides[i];
      if (part.first < 0 || last >= elements)
        std::abort();
    }
  return 0;
}
