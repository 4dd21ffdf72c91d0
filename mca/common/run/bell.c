#include "mca/common/run/bell.h"

#include <stddef.h>

#include "device/types/plan.h"

/* Bytes of a line of memory that a GPU reads at once. */
#define LINE 128

_Static_assert(offsetof(mscclpp_dev_args_t, in) == 4 * MSCCLPP_DEV_BELL_IN_LOW &&
                   offsetof(mscclpp_dev_args_t, out) == 4 * MSCCLPP_DEV_BELL_OUT_LOW &&
                   offsetof(mscclpp_dev_args_t, bytes) == 4 * MSCCLPP_DEV_BELL_BYTES &&
                   __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "kernels copy the words of a bell, in their order, to the beginning of their arguments");
_Static_assert(MSCCLPP_KERNEL_LAST <= 32 && MSCCLPP_DTYPE_LAST <= 64 && MSCCLPP_OP_LAST <= 16,
               "the code of a bell has room for the kernel, the type and the operation");
_Static_assert(offsetof(mscclpp_dev_mailbox_t, bell) % LINE == 0 && MSCCLPP_DEV_BELL_LINE * sizeof(uint64_t) == LINE &&
                   MSCCLPP_DEV_BELL_LIST > MSCCLPP_DEV_BELL_LEAVE &&
                   MSCCLPP_DEV_BELL_LONG_END(2) == MSCCLPP_DEV_BELL_LINE &&
                   MSCCLPP_DEV_BELL_LONG_END(MSCCLPP_DEV_LINGER_PEERS) == MSCCLPP_DEV_BELL_SIZE,
               "the first line of a bell has all words but those of many ranks' blocks");

uint32_t mscclpp_bell_coll(const mscclpp_dev_launch_t *launch)
{
    const mscclpp_dev_coll_args_t *coll = launch->args;
    const mscclpp_dev_plan_args_t *plan = launch->args;

    if (launch->kernel == MSCCLPP_KERNEL_PLAN) {
        return MSCCLPP_DEV_BELL_ENCODE_COLL(0, 0, false, plan->stride - plan->common.bytes);
    }
    if (!mscclpp_bell_is_coll(launch)) {
        return 0;
    }
    return MSCCLPP_DEV_BELL_ENCODE_COLL(coll->pattern, coll->root, coll->in_place,
                                        mscclpp_bell_has_lists(launch) ? 0 : coll->stride - coll->common.bytes);
}

/*
 * Returns block `i` of the call's two lists, counted from 0 over both: first the blocks to send, then the blocks to
 * receive.
 */
static const mscclpp_dev_block_t *get_block(const mscclpp_dev_blocks_args_t *blocks, uint32_t i)
{
    const uint32_t nranks = blocks->coll.common.nranks;

    return i < nranks ? &blocks->send[i] : &blocks->recv[i - nranks];
}

/* The stores are relaxed, because the caller launches the kernel afterwards. */
void mscclpp_bell_write_lists(mscclpp_dev_mailbox_t *mailbox, const mscclpp_dev_launch_t *launch)
{
    const mscclpp_dev_blocks_args_t *blocks = launch->args;
    uint32_t i;

    for (i = 0; i < 2 * blocks->coll.common.nranks; ++i) {
        __atomic_store_n(&mailbox->lists[2 * i], get_block(blocks, i)->offset, __ATOMIC_RELAXED);
        __atomic_store_n(&mailbox->lists[2 * i + 1], get_block(blocks, i)->bytes, __ATOMIC_RELAXED);
    }
}

/*
 * Returns true if no block of the call's lists has a larger offset than `max_offset` or more than `max_bytes` bytes.
 * The offset of an empty block does not count.
 */
static bool are_within(const mscclpp_dev_blocks_args_t *blocks, uint64_t max_offset, uint64_t max_bytes)
{
    uint32_t i;

    for (i = 0; i < 2 * blocks->coll.common.nranks; ++i) {
        const mscclpp_dev_block_t *block = get_block(blocks, i);

        if (block->bytes != 0 && (block->offset > max_offset || block->bytes > max_bytes)) {
            return false;
        }
    }
    return true;
}

bool mscclpp_bell_lists_fit(const mscclpp_dev_launch_t *launch)
{
    const mscclpp_dev_blocks_args_t *blocks = launch->args;

    return blocks->coll.common.nranks <= MSCCLPP_DEV_LINGER_PEERS && are_within(blocks, UINT32_MAX, UINT32_MAX);
}

/* Stores one word of the doorbell: the operation's number in the upper half (`flag`), and the payload in the lower. */
static void ring_word(mscclpp_dev_mailbox_t *mailbox, uint64_t flag, uint32_t index, uint64_t payload)
{
    __atomic_store_n(&mailbox->bell[index], flag | payload, __ATOMIC_RELEASE);
}

/*
 * Writes the call's lists of blocks into the doorbell. The lists are short if one block serves the operation
 * (`nblocks`) and all offsets and sizes fit. Returns the flag of the word CODE for short or for long lists.
 */
static uint32_t ring_lists(mscclpp_dev_mailbox_t *mailbox, uint64_t flag, const mscclpp_dev_blocks_args_t *blocks,
                           uint32_t nblocks)
{
    const bool are_short = nblocks == 1 && are_within(blocks, MSCCLPP_DEV_BELL_MAX_OFFSET, MSCCLPP_DEV_BELL_MAX_BYTES);
    uint32_t i;

    for (i = 0; i < 2 * blocks->coll.common.nranks; ++i) {
        const mscclpp_dev_block_t *block = get_block(blocks, i);
        const uint64_t offset = block->bytes != 0 ? block->offset : 0;

        if (are_short) {
            ring_word(mailbox, flag, MSCCLPP_DEV_BELL_LIST + i, MSCCLPP_DEV_BELL_ENCODE_BLOCK(offset, block->bytes));
        } else {
            ring_word(mailbox, flag, MSCCLPP_DEV_BELL_LIST + 2 * i, offset);
            ring_word(mailbox, flag, MSCCLPP_DEV_BELL_LIST + 2 * i + 1, block->bytes);
        }
    }
    return are_short ? MSCCLPP_DEV_BELL_LISTS : MSCCLPP_DEV_BELL_LONG_LISTS;
}

/* The stores are relaxed, because the caller launches the kernel afterwards. */
void mscclpp_bell_clear(mscclpp_dev_mailbox_t *mailbox, uint64_t number)
{
    int i;

    __atomic_store_n(&mailbox->bell[0], number << 32, __ATOMIC_RELAXED);
    for (i = MSCCLPP_DEV_BELL_LIST; i < MSCCLPP_DEV_BELL_SIZE; ++i) {
        __atomic_store_n(&mailbox->bell[i], number << 32, __ATOMIC_RELAXED);
    }
}

void mscclpp_bell_ring(mscclpp_dev_mailbox_t *mailbox, uint64_t number, const mscclpp_dev_launch_t *launch,
                       uint32_t code)
{
    const mscclpp_dev_args_t *args = launch->args;
    const uint64_t flag = number << 32; /* the operation's number, in the upper half of each word */
    const uint64_t in = (uintptr_t)args->in, out = (uintptr_t)args->out;
    uint64_t words[MSCCLPP_DEV_BELL_WORDS];
    uint32_t i;

    if (mscclpp_bell_has_lists(launch)) {
        code |= ring_lists(mailbox, flag, launch->args, MSCCLPP_DEV_BELL_BLOCKS(code));
    }
    words[MSCCLPP_DEV_BELL_IN_LOW] = (uint32_t)in;
    words[MSCCLPP_DEV_BELL_IN_HIGH] = in >> 32;
    words[MSCCLPP_DEV_BELL_OUT_LOW] = (uint32_t)out;
    words[MSCCLPP_DEV_BELL_OUT_HIGH] = out >> 32;
    words[MSCCLPP_DEV_BELL_BYTES] = mscclpp_bell_bytes(launch);
    words[MSCCLPP_DEV_BELL_CODE] = code;
    words[MSCCLPP_DEV_BELL_COLL] = mscclpp_bell_coll(launch);
    /* The words may arrive in any order, because a kernel waits until all of them have the number. */
    for (i = 0; i < MSCCLPP_DEV_BELL_WORDS; ++i) {
        ring_word(mailbox, flag, i, words[i]);
    }
}
