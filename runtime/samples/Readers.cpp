#include "runtime/samples/Readers.h"

using namespace meshc;
using namespace meshc::runtime;

Result<Samples> runtime::openSamples(const SampleRequest &request) {
  // In the order of the schema.
  static constexpr SampleReader readers[] = {openIdx,    openNpy,  openTokens,
                                             openText,   openRows, openImages,
                                             openClasses};
  static_assert(std::size(readers) == size_t(exec::DataReader::MAX) + 1);
  return readers[size_t(request.source.reader)](request);
}
