/*
 * What these examples ask of the device: memory, copies, and the kernels of kernels.h on one stream. stage_cuda.cu does
 * this on a GPU, stage_host.c on the host twin. Errors end the program.
 */
#ifndef EXAMPLES_CHANNELS_STAGE_H
#define EXAMPLES_CHANNELS_STAGE_H

#include <stddef.h>

#include "kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Chooses the device of this process, which is the `number`th one of its machine, from 0. Returns the device's name,
 * for messages.
 */
const char *stage_open(int number);
void stage_close(void);

/* Returns the number of threads of a block. */
unsigned stage_threads(void);

/*
 * Return zeroed device memory of this process alone, and (pinned) host memory that kernels reach at the same address.
 */
void *stage_alloc(size_t bytes);
void stage_free(void *memory);
void *stage_alloc_pinned(size_t bytes);
void stage_free_pinned(void *memory);

/* Copy between device and host memory, and return when that is done. */
void stage_to_device(void *to, const void *from, size_t bytes);
void stage_to_host(void *to, const void *from, size_t bytes);

/* NAME_launch(blocks, args) queues kernel NAME, with a copy of its arguments. */
#define STAGE_LAUNCH(name_) void name_##_launch(unsigned blocks, const name_##_args_t *args);
KERNELS(STAGE_LAUNCH)
#undef STAGE_LAUNCH

/* Waits until all kernels that were launched have ended. */
void stage_wait(void);

#ifdef __cplusplus
}
#endif

#endif
