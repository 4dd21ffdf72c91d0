/*
 * The host's end of a FIFO of triggers. Kernels push requests for the proxy into the FIFO. One thread at a time takes
 * triggers out.
 */
#ifndef MCA_COMMON_PORT_FIFO_H
#define MCA_COMMON_PORT_FIFO_H

#include <stdbool.h>
#include <stdint.h>

#include "device/types/fifo.h"
#include "mca/common/gpu/gpu.h"
#include "mca/common/base/status.h"

typedef struct mscclpp_fifo mscclpp_fifo_t;

/*
 * Creates a FIFO for kernels of `device`; `slots` is above 0, and is rounded up to a power of two. Returns
 * MSCCLPP_ERR_NO_MEMORY or the error of the GPU runtime, which are logged; *fifo_p is then not set.
 */
mscclpp_status_t mscclpp_fifo_create(const mscclpp_gpu_ops_t *gpu, int device, uint64_t slots, mscclpp_fifo_t **fifo_p);

/* Frees the FIFO, after all kernels that push have ended. NULL is allowed. */
void mscclpp_fifo_destroy(mscclpp_fifo_t *fifo);

/* Returns the structure that kernels use. It lives as long as the FIFO. */
const mscclpp_dev_fifo_t *mscclpp_fifo_device(const mscclpp_fifo_t *fifo);

/*
 * Reads the next trigger, which stays in its slot until mscclpp_fifo_pop. Returns false if it has not been pushed yet.
 */
bool mscclpp_fifo_poll(const mscclpp_fifo_t *fifo, mscclpp_dev_trigger_t *trigger_p);

/* Returns the position of the next trigger: the number of triggers that were popped before it. */
uint64_t mscclpp_fifo_position(const mscclpp_fifo_t *fifo);

/*
 * Reads the trigger at `position`. That need not be the next trigger, but must be less than the number of slots ahead
 * of the next one. Returns false if the trigger at `position` has not been pushed yet. Kernels push concurrently, so a
 * later trigger may be pushed before an earlier one.
 */
bool mscclpp_fifo_peek(const mscclpp_fifo_t *fifo, uint64_t position, mscclpp_dev_trigger_t *trigger_p);

/* Gives the slot of the last polled trigger back to the kernels. */
void mscclpp_fifo_pop(mscclpp_fifo_t *fifo);

#endif
