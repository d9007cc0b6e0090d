#include "runtime/ranks/MpiPlugin.h"

#include <algorithm>
#include <array>
#include <vector>

#include <mpi.h>

namespace {

/// One message; long ones are several of MPI's, which counts in int.
struct Request {
  std::vector<MPI_Request> parts;
};

constexpr size_t maxPartBytes = size_t(1) << 30;

} // namespace

/// The text of an error; null for success.
static const char *describe(int error) {
  static std::array<char, MPI_MAX_ERROR_STRING> text;
  if (error == MPI_SUCCESS)
    return nullptr;
  int length = 0;
  MPI_Error_string(error, text.data(), &length);
  return text.data();
}

static const char *start(int *rank, int *ranks, int *maxTag) {
  int level = MPI_THREAD_SINGLE;
  if (const char *error = describe(
          MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level)))
    return error;
  if (level < MPI_THREAD_SERIALIZED)
    return "this MPI cannot be called from several threads";
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int *bound = nullptr;
  int isSet = 0;
  MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &bound, &isSet);
  constexpr int guaranteedTag = 32767;
  *maxTag = isSet ? *bound : guaranteedTag;
  if (const char *error = describe(MPI_Comm_rank(MPI_COMM_WORLD, rank)))
    return error;
  return describe(MPI_Comm_size(MPI_COMM_WORLD, ranks));
}

static const char *finish() { return describe(MPI_Finalize()); }

static const char *broadcast(void *data, size_t bytes) {
  return describe(MPI_Bcast(data, int(bytes), MPI_BYTE, 0, MPI_COMM_WORLD));
}

/// Cuts a message into parts, which arrive in the order in which they begin.
template <typename Byte, typename Begin>
static const char *beginParts(Byte *data, size_t bytes, void **request,
                              Begin &&begin) {
  auto *made = new Request;
  *request = made;
  do {
    const size_t part = std::min(bytes, maxPartBytes);
    made->parts.push_back(MPI_REQUEST_NULL);
    if (const char *error =
            describe(begin(data, int(part), &made->parts.back())))
      return error;
    data += part;
    bytes -= part;
  } while (bytes > 0);
  return nullptr;
}

static const char *send(int peer, int tag, const void *data, size_t bytes,
                        void **request) {
  return beginParts(static_cast<const char *>(data), bytes, request,
                    [&](const char *from, int count, MPI_Request *part) {
                      return MPI_Isend(from, count, MPI_BYTE, peer, tag,
                                       MPI_COMM_WORLD, part);
                    });
}

static const char *receive(int peer, int tag, void *data, size_t bytes,
                           void **request) {
  return beginParts(static_cast<char *>(data), bytes, request,
                    [&](char *to, int count, MPI_Request *part) {
                      return MPI_Irecv(to, count, MPI_BYTE, peer, tag,
                                       MPI_COMM_WORLD, part);
                    });
}

static const char *test(void *request, int *isComplete) {
  auto *tested = static_cast<Request *>(request);
  const char *error =
      describe(MPI_Testall(int(tested->parts.size()), tested->parts.data(),
                           isComplete, MPI_STATUSES_IGNORE));
  if (!error && *isComplete)
    delete tested;
  return error;
}

const meshcMpiFunctions *meshcGetMpi() {
  static const meshcMpiFunctions functions = {
      meshcMpiVersion, start, finish, broadcast, send, receive, test};
  return &functions;
}
