/// A libmeshc_mpi.so whose MPI starts, and then loses the other ranks: the
/// function named by FAILING_MPI fails, send or test.

#include "runtime/ranks/MpiPlugin.h"

#include <cstdlib>
#include <string>

static bool fails(const std::string &function) {
  const char *which = std::getenv("FAILING_MPI");
  return which && which == function;
}

static int getNumber(const char *name) {
  const char *text = std::getenv(name);
  return text ? std::atoi(text) : 0;
}

static const char *start(int *rank, int *ranks, int *maxTag) {
  *rank = getNumber("OMPI_COMM_WORLD_RANK");
  *ranks = getNumber("OMPI_COMM_WORLD_SIZE");
  *maxTag = 1 << 24;
  return nullptr;
}

static const char *finish() { return nullptr; }

static const char *broadcast(void *, size_t) { return "no broadcast"; }

static const char *send(int, int, const void *, size_t, void **) {
  return fails("send") ? "the send has nowhere to go" : nullptr;
}

static const char *receive(int, int, void *, size_t, void **) {
  return nullptr;
}

static const char *test(void *, int *isComplete) {
  *isComplete = 0;
  return fails("test") ? "the other end is gone" : nullptr;
}

const meshcMpiFunctions *meshcGetMpi() {
  static const meshcMpiFunctions functions = {
      meshcMpiVersion, start, finish, broadcast, send, receive, test};
  return &functions;
}
