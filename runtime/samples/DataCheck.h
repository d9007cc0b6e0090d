#ifndef MESHC_RUNTIME_SAMPLES_DATACHECK_H
#define MESHC_RUNTIME_SAMPLES_DATACHECK_H

#include "runtime/samples/Dataset.h"

namespace meshc::runtime {

/// Reads and converts samples [first, end) of every input once, on so many
/// threads, so that what is wrong with one shows before a training of hours
/// comes to it. `listener` is told how many bytes of all are done, as inputs
/// have them. Errors: as of Dataset::readSamples, of the first input that has
/// one and its first sample.
Status checkSamples(const Dataset &dataset, int64_t first, int64_t end,
                    int threads, const ByteListener &listener = {});

} // namespace meshc::runtime

#endif
