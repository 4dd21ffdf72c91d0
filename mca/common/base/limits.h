/*
 * Determines which resources the system still grants this process, for libraries that abort the process if a resource
 * is refused. Nothing is reserved: other code may take the resources in the meantime, so callers should ask for a
 * margin.
 */
#ifndef MCA_COMMON_BASE_LIMITS_H
#define MCA_COMMON_BASE_LIMITS_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Returns true if this process may have `wanted` more files open at a time (ulimit -n), or if the limit is unknown.
 * Opens no file.
 */
bool mscclpp_limits_allow_descriptors(size_t wanted);

/* Returns true if `wanted` more bytes of address space are available. */
bool mscclpp_limits_allow_address_space(size_t wanted);

/* Returns true if one more thread with the default stack size can be started. Starts one, which ends immediately. */
bool mscclpp_limits_allow_thread(void);

/*
 * Returns the number of network interfaces and RDMA devices of this machine; 0 if they cannot be counted. Opens a
 * folder for a moment.
 */
size_t mscclpp_limits_count_devices(void);

#endif
