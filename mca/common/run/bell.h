/*
 * The words of a lingering kernel's doorbell (device/types/linger.h): what they say about an operation, and how the
 * host writes them.
 */
#ifndef MCA_COMMON_RUN_BELL_H
#define MCA_COMMON_RUN_BELL_H

#include <stdbool.h>
#include <stdint.h>

#include "device/launch/launch.h"
#include "device/types/coll.h"
#include "device/types/linger.h"

/* Returns true for the packet kernels with lists of blocks: of collectives whose blocks have different sizes. */
static inline bool mscclpp_bell_has_lists(const mscclpp_dev_launch_t *launch)
{
    return launch->kernel == MSCCLPP_KERNEL_COLL_MOVE_BLOCKS || launch->kernel == MSCCLPP_KERNEL_COLL_COMBINE_BLOCKS;
}

/* Returns true for the packet kernels of collectives other than all-reduce. */
static inline bool mscclpp_bell_is_coll(const mscclpp_dev_launch_t *launch)
{
    return launch->kernel == MSCCLPP_KERNEL_COLL_MOVE_PACKETS ||
           launch->kernel == MSCCLPP_KERNEL_COLL_COMBINE_PACKETS || mscclpp_bell_has_lists(launch);
}

/*
 * Returns the doorbell's word BYTES: the size of the message, of each block, or, if blocks differ in size, of the
 * largest block of this rank or of all ranks.
 */
static inline uint64_t mscclpp_bell_bytes(const mscclpp_dev_launch_t *launch)
{
    return mscclpp_bell_has_lists(launch) ? ((const mscclpp_dev_blocks_args_t *)launch->args)->largest_block
                                          : ((const mscclpp_dev_args_t *)launch->args)->bytes;
}

/*
 * Returns the doorbell's word COLL, which has the pattern, the root, whether the call is in place, and the padding. For
 * a plan, the word has only the padding. For an all-reduce, the word is 0. With lists of blocks, the padding is 0,
 * because the lists contain the offset of each block.
 */
uint32_t mscclpp_bell_coll(const mscclpp_dev_launch_t *launch);

/*
 * Returns true if the doorbell has room for the operation's lists of blocks: there are at most MSCCLPP_DEV_LINGER_PEERS
 * ranks, and each offset and size has at most 32 bits. Called only if mscclpp_bell_has_lists.
 */
bool mscclpp_bell_lists_fit(const mscclpp_dev_launch_t *launch);

/*
 * Writes the lists of blocks of a kernel's first operation to the mailbox. The operation has at most
 * MSCCLPP_DEV_LINGER_PEERS ranks. The earlier operations must have ended: a kernel reads its lists before it reports
 * the end.
 */
void mscclpp_bell_write_lists(mscclpp_dev_mailbox_t *mailbox, const mscclpp_dev_launch_t *launch);

/*
 * Clears the doorbell before the launch of a kernel whose first operation is number `number`. Words left from 2^32
 * operations ago could otherwise be taken for those of a later operation. Clears all words of the lists, because not
 * every ring writes them. Clears only one of the words that every ring writes, because a kernel waits for all of those.
 */
void mscclpp_bell_clear(mscclpp_dev_mailbox_t *mailbox, uint64_t number);

/*
 * Rings for operation `number`. The polling kernel takes the operation once all words of the doorbell contain this
 * number. `code` is the word CODE without the flags of lists; the function adds the flag if the operation has lists.
 * The lists must fit (mscclpp_bell_lists_fit).
 */
void mscclpp_bell_ring(mscclpp_dev_mailbox_t *mailbox, uint64_t number, const mscclpp_dev_launch_t *launch,
                       uint32_t code);

#endif
