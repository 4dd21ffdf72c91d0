/*
 * What the system still grants this process, for libraries that end it where they are refused something. Nothing is
 * reserved: others may take it in the meantime, so ask for a margin.
 */
#ifndef MCA_COMMON_BASE_LIMITS_H
#define MCA_COMMON_BASE_LIMITS_H

#include <stdbool.h>
#include <stddef.h>

/* Whether so many more files can be open at a time. Opens none to find out. */
bool mscclpp_limits_descriptors(size_t wanted);

/* Whether so many more bytes of address space can be had. */
bool mscclpp_limits_address_space(size_t wanted);

/* Whether one more thread, with a stack as threads have it by default, can be started. */
bool mscclpp_limits_thread(void);

/* Network interfaces and RDMA devices of this machine; 0 where they cannot be counted. Opens a folder for a moment. */
size_t mscclpp_limits_devices(void);

#endif
