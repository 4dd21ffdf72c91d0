/*
 * Tells what the system still grants this process, for libraries that end the process if they are refused something.
 * Nothing is reserved: others may take it in the meantime, so ask for a margin.
 */
#ifndef MCA_COMMON_BASE_LIMITS_H
#define MCA_COMMON_BASE_LIMITS_H

#include <stdbool.h>
#include <stddef.h>

/* True if `wanted` more files can be open at a time. Opens none to find out. Also true if the limit is not known. */
bool mscclpp_limits_descriptors(size_t wanted);

/* True if `wanted` more bytes of address space are available. */
bool mscclpp_limits_address_space(size_t wanted);

/* True if one more thread with the default stack size can be started. Starts one, which ends at once. */
bool mscclpp_limits_thread(void);

/*
 * Returns the number of network interfaces and RDMA devices of this machine; 0 if they cannot be counted. Opens a
 * folder for a moment.
 */
size_t mscclpp_limits_devices(void);

#endif
