/*
 * Memory of which it is certain, without a question to a GPU's driver, that it is ordinary memory of the host: the
 * calling thread's stack, the heap below the break, and the variables of the main program. That is where the buffers of
 * small calls lie, which feel each tenth of a microsecond.
 *
 * CUDA places device and managed memory in mappings of its own, at addresses where nothing else is mapped. So no such
 * memory lies within a mapping that the system has made for something else, for as long as that exists. Of the three
 * kinds above it is known at any time how far they reach.
 *
 * Nothing is remembered of other addresses: memory that is mapped (large blocks of malloc, heaps of threads, libraries)
 * can be unmapped, and then CUDA may have its addresses, of which nobody learns.
 */
#ifndef MCA_COMMON_BASE_HOST_MEMORY_H
#define MCA_COMMON_BASE_HOST_MEMORY_H

#include <stdbool.h>

/*
 * True if the byte at `address` certainly is neither device nor managed memory; it may be pinned. False if that is not
 * known. The byte must be the caller's to use until the call returns. Takes a few nanoseconds.
 */
bool mscclpp_host_memory_is_certain(const void *address);

#endif
