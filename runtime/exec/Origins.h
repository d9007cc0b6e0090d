#ifndef MESHC_RUNTIME_EXEC_ORIGINS_H
#define MESHC_RUNTIME_EXEC_ORIGINS_H

/// What plans call values, by what they are for. Nothing reads it out of a
/// name: a name is lead, scopes, and what is called so in there,
///
///   "gradient of " "layer/3/attn" "/" "scores"
///   "adam/m/"      "b1"           "/" "wq"
///
/// What is only on the way to a value says so in front of its name: "inside h",
/// "copy of h", "partial sums of gradient of w".

#include "runtime/exec/exec_generated.h"

#include <string>

namespace meshc::runtime {

/// "layer/3/attn" of a scope of the executable; empty of -1.
std::string getScopeName(const exec::ExecutableT &executable, int scope);

/// What stands in front of the scopes: "gradient of ", "adam/m/".
std::string getLead(const exec::OriginT &origin);

/// What a value is called, on the way to it too; empty of null.
std::string getOriginName(const exec::ExecutableT &executable,
                          const exec::OriginT *origin);

/// "inside ", "copy of "; empty of a value itself.
const char *getPartLead(exec::OriginPart part);

/// Bytes on each device above which what was not written is told of (Remark).
inline constexpr int64_t remarkBytes = int64_t(1) << 20;

/// What memory of this origin is called; empty of null.
std::string getBufferName(const exec::ExecutableT &executable,
                          const exec::OriginT *origin);

} // namespace meshc::runtime

#endif
