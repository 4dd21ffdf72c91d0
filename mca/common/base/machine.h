/*
 * Numbers that identify this machine and the parts of it that this process can see. Peers compare them with their own.
 */
#ifndef MCA_COMMON_BASE_MACHINE_H
#define MCA_COMMON_BASE_MACHINE_H

#include <stdint.h>

/* Returns a number that identifies this boot of the machine; 0 if the system does not provide one. */
uint64_t mscclpp_machine_boot(void);

/*
 * Returns a number of the process-id namespace. If two processes have the same number, a process id names the same
 * process for both. 0 means unknown, and must never be treated as equal.
 */
uint64_t mscclpp_machine_pids(void);

/*
 * Returns a number of the machine, its host name and the namespaces. If two processes of one user have the same number,
 * they can share all resources that processes of one machine can share. 0 means unknown, and must never be treated as
 * equal.
 */
uint64_t mscclpp_machine_id(void);

#endif
