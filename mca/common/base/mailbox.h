/*
 * Functions by which the host reads the mailbox, the memory in which a team's kernels report the operations that they
 * have ended. See mscclpp_dev_mailbox_t.
 */
#ifndef MCA_COMMON_BASE_MAILBOX_H
#define MCA_COMMON_BASE_MAILBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "device/types/launch.h"

/*
 * Returns the number of operations that one block has ended. The load has acquire order, because the caller next reads
 * data that the block wrote before.
 */
static inline uint64_t mscclpp_mailbox_ended_by(const mscclpp_dev_mailbox_t *mailbox, uint32_t block)
{
    return __atomic_load_n(&mailbox->ended[block], __ATOMIC_ACQUIRE);
}

/* Returns true if each of the first `blocks` blocks has ended at least `launches` operations. */
static inline bool mscclpp_mailbox_all_ended(const mscclpp_dev_mailbox_t *mailbox, uint32_t blocks, uint64_t launches)
{
    uint32_t block;

    for (block = 0; block < blocks; ++block) {
        if (mscclpp_mailbox_ended_by(mailbox, block) < launches) {
            return false;
        }
    }
    return true;
}

/* Returns the number of operations that all of the first `blocks` blocks have ended. `blocks` is at least 1. */
static inline uint64_t mscclpp_mailbox_ended(const mscclpp_dev_mailbox_t *mailbox, uint32_t blocks)
{
    uint64_t count = mscclpp_mailbox_ended_by(mailbox, 0);
    uint32_t block;

    for (block = 1; block < blocks; ++block) {
        const uint64_t ended_by_block = mscclpp_mailbox_ended_by(mailbox, block);

        count = ended_by_block < count ? ended_by_block : count;
    }
    return count;
}

#endif
