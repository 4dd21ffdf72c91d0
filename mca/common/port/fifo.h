/* The host's end of a FIFO of triggers. Taken from by one thread at a time. */
#ifndef MCA_COMMON_PORT_FIFO_H
#define MCA_COMMON_PORT_FIFO_H

#include <stdbool.h>
#include <stdint.h>

#include "device/types/fifo.h"
#include "mca/common/gpu/gpu.h"
#include "mca/common/base/status.h"

typedef struct mscclpp_fifo mscclpp_fifo_t;

/* For kernels of `device`; `slots` is rounded up to a power of two. */
mscclpp_status_t mscclpp_fifo_create(const mscclpp_gpu_ops_t *gpu, int device, uint64_t slots, mscclpp_fifo_t **fifo_p);

/* After all kernels that push have ended. NULL is allowed. */
void mscclpp_fifo_destroy(mscclpp_fifo_t *fifo);

/* What kernels are given. */
const mscclpp_dev_fifo_t *mscclpp_fifo_device(const mscclpp_fifo_t *fifo);

/* The next trigger, if one has been pushed. It stays in its slot until mscclpp_fifo_pop. */
bool mscclpp_fifo_poll(const mscclpp_fifo_t *fifo, mscclpp_dev_trigger_t *trigger_p);

/* Position of the next trigger. */
uint64_t mscclpp_fifo_position(const mscclpp_fifo_t *fifo);

/*
 * The same for a trigger that is not yet the next one: of the positions from the next one's on as many as there are
 * slots. One may be there while one before it is not, as kernels push side by side.
 */
bool mscclpp_fifo_peek(const mscclpp_fifo_t *fifo, uint64_t position, mscclpp_dev_trigger_t *trigger_p);

/* Gives the slot of the trigger polled last back to the kernels. */
void mscclpp_fifo_pop(mscclpp_fifo_t *fifo);

#endif
