/* What tells this machine, and what of it this process can see, from others: numbers that peers compare with theirs. */
#ifndef MCA_COMMON_BASE_MACHINE_H
#define MCA_COMMON_BASE_MACHINE_H

#include <stdint.h>

/* Of the machine since it was started; 0 where the system does not say. */
uint64_t mscclpp_machine_boot(void);

/* Where it is equal, a process id names the same process. 0: unknown, and equal to nobody's. */
uint64_t mscclpp_machine_pids(void);

/*
 * Where it is equal, processes of one user can share all that processes of one machine can, since they have its name
 * and namespaces in common, too. 0: unknown, and equal to nobody's.
 */
uint64_t mscclpp_machine_id(void);

#endif
