/* What a team's kernels say of their ends, as its host reads it. See mscclpp_dev_mailbox_t. */
#ifndef MCA_COMMON_BASE_MAILBOX_H
#define MCA_COMMON_BASE_MAILBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "device/types/launch.h"

/* How many operations the block has ended. Acquire: what it wrote before is looked at next. */
static inline uint64_t mscclpp_mailbox_of(const mscclpp_dev_mailbox_t *mailbox, uint32_t block)
{
    return __atomic_load_n(&mailbox->ended[block], __ATOMIC_ACQUIRE);
}

/* The first `blocks` blocks have ended so many operations. */
static inline bool mscclpp_mailbox_says(const mscclpp_dev_mailbox_t *mailbox, uint32_t blocks, uint64_t launches)
{
    uint32_t b;

    for (b = 0; b < blocks; ++b) {
        if (mscclpp_mailbox_of(mailbox, b) < launches) {
            return false;
        }
    }
    return true;
}

/* How many operations the first `blocks` blocks have ended, all of them, of which there is at least one. */
static inline uint64_t mscclpp_mailbox_count(const mscclpp_dev_mailbox_t *mailbox, uint32_t blocks)
{
    uint64_t count = mscclpp_mailbox_of(mailbox, 0);
    uint32_t b;

    for (b = 1; b < blocks; ++b) {
        const uint64_t theirs = mscclpp_mailbox_of(mailbox, b);

        count = theirs < count ? theirs : count;
    }
    return count;
}

#endif
