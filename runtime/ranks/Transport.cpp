#include "runtime/ranks/Transport.h"

#include "runtime/ranks/MpiTransport.h"
#include "runtime/ranks/SocketTransport.h"

using namespace meshc;
using namespace meshc::runtime;

Result<std::unique_ptr<Transport>>
runtime::createTransport(Ranks &ranks, TransportKind kind) {
  const RankSource source = ranks.getIdentity().source;
  const bool byMpi =
      kind == TransportKind::Mpi ||
      (kind == TransportKind::Auto &&
       (source == RankSource::OpenMpi || source == RankSource::Hydra));
  return byMpi ? MpiTransport::create(ranks) : SocketTransport::create(ranks);
}
