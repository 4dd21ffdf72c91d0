/*
 * Determines, without a call of the GPU's driver, that an address is certainly ordinary host memory: on the stack of
 * the calling thread, in the heap below the break, or in a variable of the main program. The buffers of small calls are
 * usually there, and for small calls every tenth of a microsecond counts.
 *
 * CUDA places device and managed memory in its own mappings, at addresses where nothing else is mapped. So such memory
 * is never in a mapping that the system made for another purpose, as long as that mapping exists. The bounds of the
 * three kinds above are known at any time.
 *
 * Nothing is stored about other addresses. Mapped memory (large blocks of malloc, heaps of threads, libraries) can be
 * unmapped, and CUDA may then reuse its addresses without notice.
 */
#ifndef MCA_COMMON_BASE_HOST_MEMORY_H
#define MCA_COMMON_BASE_HOST_MEMORY_H

#include <stdbool.h>

/*
 * Returns true if the byte at `address` is certainly neither device nor managed memory; it may be pinned. Returns false
 * if that is not known. The caller must own the byte until the call returns. Takes a few nanoseconds.
 */
bool mscclpp_host_memory_is_certain(const void *address);

#endif
