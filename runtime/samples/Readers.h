#ifndef MESHC_RUNTIME_SAMPLES_READERS_H
#define MESHC_RUNTIME_SAMPLES_READERS_H

#include "runtime/exec/exec_generated.h"
#include "runtime/io/ByteListener.h"
#include "runtime/samples/SampleArray.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace meshc::runtime {

using Samples = std::unique_ptr<SampleArray>;

/// What a reader is to open.
struct SampleRequest {
  const exec::DataSourceT &source;
  std::string path;           ///< of the file or folder
  std::string folder;         ///< where those for training are
  std::vector<int64_t> sizes; ///< of a sample, as the input has them
  exec::ElementType element;  ///< of the input
  ByteListener listener = {}; ///< of what is read when it is opened
  /// The first file of the pattern that names this one, too; null: there is
  /// none before it.
  const SampleArray *first = nullptr;
};

using SampleReader = Result<Samples> (*)(const SampleRequest &request);

/// An error where a file has another format than the first one of its pattern;
/// it names both. Errors: WrongData.
Status checkFormat(const SampleRequest &request, const std::string &format);

/// Arrays of the MNIST family's format. Errors: those of readIdx.
Result<Samples> openIdx(const SampleRequest &request);
/// NumPy's arrays, their first axis the samples. Errors: those of readNpy.
Result<Samples> openNpy(const SampleRequest &request);
/// Windows of ids, from llm.c's files or without a header, as nanoGPT's are.
/// Errors: CannotRead, DamagedFile; WrongData where it is not said which type
/// the ids of a file without header have.
Result<Samples> openTokens(const SampleRequest &request);
/// Windows of a text, plain or in gzip, as TextUnits has it. Errors: its own.
Result<Samples> openText(const SampleRequest &request);
/// Columns of numbers of a table (CSV). Errors: CannotRead; WrongData, with
/// the line, for cells that are missing or no numbers.
Result<Samples> openRows(const SampleRequest &request);
/// The images below the folders of a folder, in the order of their paths; and
/// the numbers of those folders, in the order of their names. Errors:
/// CannotRead; WrongData for images of another size.
Result<Samples> openImages(const SampleRequest &request);
Result<Samples> openClasses(const SampleRequest &request);

/// Opens what a data source names, by its reader.
Result<Samples> openSamples(const SampleRequest &request);

} // namespace meshc::runtime

#endif
