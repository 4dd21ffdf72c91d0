/*
 * Numbers that identify this machine and the parts of it that this process can see. Peers compare them with their own.
 */
#ifndef MCA_COMMON_BASE_MACHINE_H
#define MCA_COMMON_BASE_MACHINE_H

#include <stdint.h>

/* Returns a number of the machine that changes when it is restarted; 0 where the system does not say. */
uint64_t mscclpp_machine_boot(void);

/*
 * Returns a number of the process-id namespace: if two processes have the same number, a process id names the same
 * process for both. 0 means unknown, and never counts as equal.
 */
uint64_t mscclpp_machine_pids(void);

/*
 * Returns a number of machine, host name and namespaces: if two processes of one user have the same number, they can
 * share all that processes of one machine can share. 0 means unknown, and never counts as equal.
 */
uint64_t mscclpp_machine_id(void);

#endif
