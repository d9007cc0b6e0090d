#include "runtime/ranks/Transport.h"

#include "runtime/ranks/MpiTransport.h"
#include "runtime/ranks/SocketTransport.h"

#include <fmt/format.h>

using namespace meshc;
using namespace meshc::runtime;

Error runtime::getConnectionError(int64_t rank, const std::string &why) {
  return {ErrorCode::RankLost,
          fmt::format("lost the connection to rank {}: {}", rank, why), ""};
}

Result<std::unique_ptr<Transport>>
runtime::createTransport(Ranks &ranks, TransportKind kind) {
  const RankSource source = ranks.getIdentity().source;
  const bool byMpi =
      kind == TransportKind::Mpi ||
      (kind == TransportKind::Auto &&
       (source == RankSource::OpenMpi || source == RankSource::Hydra));
  return byMpi ? MpiTransport::create(ranks) : SocketTransport::create(ranks);
}
