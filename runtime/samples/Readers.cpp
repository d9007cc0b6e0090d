#include "runtime/samples/Readers.h"

#include <fmt/format.h>

using namespace meshc;
using namespace meshc::runtime;

Status runtime::checkFormat(const SampleRequest &request,
                            const std::string &format) {
  if (!request.first || request.first->getShape().format == format)
    return Status::success();
  return Error{ErrorCode::WrongData,
               fmt::format("'{}' has {}, '{}' has {}", request.path, format,
                           request.first->getPath(),
                           request.first->getShape().format),
               "files of one pattern have one format"};
}

Result<Samples> runtime::openSamples(const SampleRequest &request) {
  // In the order of the schema.
  static constexpr SampleReader readers[] = {openIdx,    openNpy,  openTokens,
                                             openText,   openRows, openImages,
                                             openClasses};
  static_assert(std::size(readers) == size_t(exec::DataReader::MAX) + 1);
  return readers[size_t(request.source.reader)](request);
}
