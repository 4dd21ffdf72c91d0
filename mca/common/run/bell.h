/*
 * What the doorbell of a lingering kernel (device/types/linger.h) says of an operation, and how the host writes it.
 */
#ifndef MCA_COMMON_RUN_BELL_H
#define MCA_COMMON_RUN_BELL_H

#include <stdbool.h>
#include <stdint.h>

#include "device/launch/launch.h"
#include "device/types/coll.h"
#include "device/types/linger.h"

/* Returns true for the packet kernels of collectives other than all-reduce whose blocks have different sizes. */
static inline bool mscclpp_bell_is_varied(const mscclpp_dev_launch_t *launch)
{
    return launch->kernel == MSCCLPP_KERNEL_COLL_MOVE_BLOCKS || launch->kernel == MSCCLPP_KERNEL_COLL_COMBINE_BLOCKS;
}

/* Returns true for the packet kernels of collectives other than all-reduce. */
static inline bool mscclpp_bell_is_coll(const mscclpp_dev_launch_t *launch)
{
    return launch->kernel == MSCCLPP_KERNEL_COLL_MOVE_PACKETS ||
           launch->kernel == MSCCLPP_KERNEL_COLL_COMBINE_PACKETS || mscclpp_bell_is_varied(launch);
}

/* Returns the number of bytes for the doorbell: of the message, of each block, or of the largest block on any rank. */
static inline uint64_t mscclpp_bell_bytes(const mscclpp_dev_launch_t *launch)
{
    return mscclpp_bell_is_varied(launch) ? ((const mscclpp_dev_blocks_args_t *)launch->args)->largest_block
                                          : ((const mscclpp_dev_args_t *)launch->args)->bytes;
}

/*
 * Returns the doorbell's word COLL: pattern, root, in place and padding. Of a plan it has the padding alone; of an
 * all-reduce it is 0. With lists of blocks, the padding is 0, because the lists contain the offset of each block.
 */
uint32_t mscclpp_bell_coll(const mscclpp_dev_launch_t *launch);

/*
 * Writes the lists of blocks of different sizes to the mailbox. There are at most MSCCLPP_DEV_LINGER_PEERS ranks. No
 * kernel still reads the lists of an earlier operation, because an operation ends after they have been read.
 */
void mscclpp_bell_write_lists(mscclpp_dev_mailbox_t *mailbox, const mscclpp_dev_launch_t *launch);

/*
 * Clears the doorbell before the launch of a kernel whose first operation is number `number`. Words left from 2^32
 * operations ago could otherwise be taken for those of a later operation. Each ring writes all words but those of the
 * lists, so of these others one is enough.
 */
void mscclpp_bell_clear(mscclpp_dev_mailbox_t *mailbox, uint64_t number);

/*
 * Rings for operation `number`. The polling kernel takes the operation once all of its words contain its number. `code`
 * is the word CODE, except for MSCCLPP_DEV_BELL_LISTS. Lists of blocks go to the doorbell if they have room there, else
 * to the mailbox.
 */
void mscclpp_bell_ring(mscclpp_dev_mailbox_t *mailbox, uint64_t number, const mscclpp_dev_launch_t *launch,
                       uint32_t code);

#endif
