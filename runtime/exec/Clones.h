#ifndef MESHC_RUNTIME_EXEC_CLONES_H
#define MESHC_RUNTIME_EXEC_CLONES_H

/// MESHC_CLONES makes several versions of a function, for wider registers, of
/// which the processor's own is chosen when the program starts: before a
/// sanitizer has started, so there it makes none.

#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define MESHC_CLONES
#endif
#endif
#ifndef MESHC_CLONES
#define MESHC_CLONES                                                           \
  __attribute__((target_clones("avx512f", "avx2", "default")))
#endif

#endif
