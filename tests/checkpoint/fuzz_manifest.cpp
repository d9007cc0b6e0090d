/// libFuzzer's target for manifests: whatever a text says, it is refused, or
/// comes back as it was when it is written again. Texts are taken as they are,
/// and as the fields in front of a digest that is right.

#include "runtime/checkpoint/Manifest.h"

#include <cstdlib>

using namespace meshc;
using namespace meshc::runtime;

static void take(const std::string &text) {
  Result<Manifest> manifest = parseManifest(text, "manifest");
  if (!manifest)
    return;
  for (const StoredFile &file : manifest->files)
    if (file.name.find('/') != std::string::npos)
      std::abort();
  const std::string written = renderManifest(*manifest);
  Result<Manifest> again = parseManifest(written, "manifest");
  if (!again || renderManifest(*again) != written)
    std::abort();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string text(reinterpret_cast<const char *>(data), size);
  take(text);
  take(sealManifest(text));
  return 0;
}
