/* Identifies this process among all others, for handles that are sent to peers. */
#ifndef MCA_COMMON_BASE_PROCESS_H
#define MCA_COMMON_BASE_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Returns a random number of this process, never 0. A process id alone does not identify a process: it is reused after
 * an exit, and processes in two containers of one node may have the same one. A forked child has its own token.
 */
uint64_t mscclpp_process_token(void);

/* Returns true if a process id and token from a handle identify this process. */
bool mscclpp_process_is_self(int64_t pid, uint64_t token);

#endif
