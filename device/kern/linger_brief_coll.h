/*
 * Brief operations of a lingering kernel for collectives other than all-reduce: operations by packets in which each
 * thread has few units. The blocks of data have one size, or the bell has short lists of them. There is little code, as
 * in linger_brief.h, because fetching instructions takes a large part of a small call. Operations with lists, and
 * operations with several units a thread, have functions of their own, so that other operations do not fetch their
 * code.
 *
 * The threads form rows of the same length, one for each rank. Thread number `lane` of row i sends unit `lane` of the
 * block for the rank i places after this rank, and receives unit `lane` of the block from the rank i places before. Row
 * 0 has the rank's own block, which goes through the rank's own slot: one code serves all rows, and everything that is
 * stored comes from packets. If a block has more units than a row has threads, the threads take several units in turn.
 * If the collective combines blocks, thread i combines unit i of all ranks.
 *
 * A warp that has a unit of a block does not diverge: lanes beyond the block's end repeat its last unit, as in
 * mscclpp_dev_brief_run.
 *
 * The slots, and the empty packets of ranks without a block for a peer, are those of coll/packets.h. So one rank may
 * serve an operation by this code, and another rank by coll/packets.h. Whether a rank's lists are short does not matter
 * to its peers. Any two ranks exchange at least one packet in either direction, even if all their blocks are empty.
 * coll/packets.h says why.
 */
#ifndef MSCCLPP_DEVICE_KERN_LINGER_BRIEF_COLL_H
#define MSCCLPP_DEVICE_KERN_LINGER_BRIEF_COLL_H

#include "device/kern/coll/blocks.h"
#include "device/kern/linger_brief.h"

/*
 * The maximum number of units of a block of data that a thread sends or receives, if the whole first block of the grid
 * serves the operation.
 */
#define MSCCLPP_DEV_BRIEF_UNITS 4u

/* The maximum sizes of operations that are brief for some number of threads, in bytes. 0: no operation is brief. */
typedef struct {
    uint32_t allreduce;
    uint32_t coll;      /* of a block of data, in other collectives */
    uint32_t row_shift; /* in other collectives, rows have 1 << row_shift threads */
} mscclpp_dev_brief_limits_t;

/* Returns the limits for operations of `threads` threads. */
MSCCLPP_DEV mscclpp_dev_brief_limits_t mscclpp_dev_brief_limits(const mscclpp_dev_args_t *args, uint32_t threads)
{
    const uint32_t units = threads < args->oneshot_capacity ? threads : args->oneshot_capacity;
    mscclpp_dev_brief_limits_t limits = {mscclpp_dev_brief_max_bytes(args, threads), 0, 0};
    uint32_t row_units;

    MSCCLPP_DEV_ROLLED
    while (args->nranks << (limits.row_shift + 1) <= threads && 2u << limits.row_shift <= args->oneshot_capacity) {
        ++limits.row_shift;
    }
    /*
     * A warp alone has one unit a thread, because further units would have to wait for the first ones. Thread i
     * combines unit i.
     */
    row_units = (threads > MSCCLPP_DEV_WARP ? MSCCLPP_DEV_BRIEF_UNITS : 1) << limits.row_shift;
    limits.coll = args->nranks <= threads ? MSCCLPP_DEV_UNIT * (row_units < units ? row_units : units) : 0;
    return limits;
}

/*
 * Returns true if the operation with these arguments and the word CODE `code` is brief for the threads with these
 * `limits`.
 */
MSCCLPP_DEV bool mscclpp_dev_linger_is_brief(const mscclpp_dev_args_t *args, uint32_t code,
                                             const mscclpp_dev_brief_limits_t *limits)
{
    const uint32_t kernel = MSCCLPP_DEV_BELL_KERNEL(code);
    const bool is_coll = kernel == MSCCLPP_KERNEL_COLL_MOVE_PACKETS || kernel == MSCCLPP_KERNEL_COLL_COMBINE_PACKETS ||
                         (code & MSCCLPP_DEV_BELL_LISTS) != 0;
    const uint32_t limit = kernel == MSCCLPP_KERNEL_ALLREDUCE_ONESHOT ? limits->allreduce : is_coll ? limits->coll : 0;

    return args->bytes <= limit && limit != 0;
}

/* An operation, as one thread sees it. */
typedef struct {
    mscclpp_dev_brief_packets_t packets; /* of unit 0 */
    uint64_t stride;                     /* bytes from one block's start to the next one's, without lists */
    const uint32_t *lists;               /* the bell's words from MSCCLPP_DEV_BELL_LIST on; NULL: no lists */
    uint32_t coll_word;                  /* the bell's word COLL */
    uint32_t lane;
    uint32_t row;        /* at least the number of ranks: the thread is in no row */
    uint32_t row_length; /* threads in a row */
} mscclpp_dev_brief_coll_t;

/* A block of data: its place in the user's buffer, and its size. */
typedef struct {
    uint64_t offset;
    uint32_t bytes;
} mscclpp_dev_brief_block_t;

/*
 * Returns the number of the last unit of a block of `bytes` bytes; 0 for an empty block, which has an empty packet in
 * place of unit 0.
 */
MSCCLPP_DEV uint32_t mscclpp_dev_brief_coll_last_unit(uint32_t bytes)
{
    return bytes == 0 ? 0 : (bytes - 1) / MSCCLPP_DEV_UNIT;
}

/*
 * Returns true if some lane of the warp has a unit with a number up to `last_unit`. `unit` is the number of this lane's
 * unit.
 */
MSCCLPP_DEV bool mscclpp_dev_brief_coll_warp_has_unit(uint32_t unit, uint32_t last_unit)
{
    return unit / MSCCLPP_DEV_WARP <= last_unit / MSCCLPP_DEV_WARP;
}

/* Returns the address at which `sender` puts unit `unit` in the scratch of `receiver`. */
MSCCLPP_DEV char *mscclpp_dev_brief_coll_slot(const mscclpp_dev_args_t *args, const mscclpp_dev_brief_coll_t *coll,
                                              uint32_t receiver, uint32_t sender, uint32_t unit)
{
    return mscclpp_dev_brief_slot(args, &coll->packets, receiver, sender) + (uint64_t)unit * MSCCLPP_DEV_PACKET_STEP;
}

/* Returns true if this rank's own block is already in the output. */
MSCCLPP_DEV bool mscclpp_dev_brief_coll_is_in_output(const mscclpp_dev_brief_coll_t *coll)
{
    return MSCCLPP_DEV_BELL_IN_PLACE(coll->coll_word) != 0 &&
           !MSCCLPP_DEV_COMBINES(MSCCLPP_DEV_BELL_PATTERN(coll->coll_word));
}

/*
 * Returns the size of this rank's own block, or of its result, from the second list. Called only if there are lists. A
 * block that is already in the output counts as empty, because the first list need not say where it lies in the input.
 */
MSCCLPP_DEV uint32_t mscclpp_dev_brief_coll_own_bytes(const mscclpp_dev_args_t *args,
                                                      const mscclpp_dev_brief_coll_t *coll)
{
    return mscclpp_dev_brief_coll_is_in_output(coll)
               ? 0
               : MSCCLPP_DEV_BELL_BLOCK_BYTES(coll->lists[args->nranks + args->rank]);
}

/*
 * Returns the block that this rank sends to `peer`, with its offset in the input, or, if `is_received`, the block that
 * it receives from `peer`, with its offset in the output. `is_received` is a constant.
 */
MSCCLPP_DEV mscclpp_dev_brief_block_t mscclpp_dev_brief_coll_block(const mscclpp_dev_args_t *args,
                                                                   const mscclpp_dev_brief_coll_t *coll, uint32_t peer,
                                                                   bool is_received)
{
    const uint32_t pattern = MSCCLPP_DEV_BELL_PATTERN(coll->coll_word), root = MSCCLPP_DEV_BELL_ROOT(coll->coll_word);
    const uint32_t sender = is_received ? peer : args->rank, receiver = is_received ? args->rank : peer;
    mscclpp_dev_brief_block_t block;

    if (coll->lists != NULL) {
        const uint32_t word = coll->lists[is_received ? args->nranks + peer : peer];

        block.offset = MSCCLPP_DEV_BELL_BLOCK_OFFSET(word);
        block.bytes =
            coll->row == 0 ? mscclpp_dev_brief_coll_own_bytes(args, coll) : MSCCLPP_DEV_BELL_BLOCK_BYTES(word);
        return block;
    }
    block.offset = (is_received ? MSCCLPP_DEV_COLL_RECVS_MANY(pattern) : MSCCLPP_DEV_COLL_SENDS_MANY(pattern))
                       ? peer * coll->stride
                       : 0;
    block.bytes = MSCCLPP_DEV_COLL_SENDS(pattern, root, sender, receiver) ? (uint32_t)args->bytes : 0;
    return block;
}

/*
 * Sends unit `unit` of the block for `peer`, or the block's last unit if it has fewer units. For an empty block, sends
 * the empty packet.
 */
MSCCLPP_DEV void mscclpp_dev_brief_coll_send_unit(const mscclpp_dev_args_t *args, const mscclpp_dev_brief_coll_t *coll,
                                                  uint32_t peer, mscclpp_dev_brief_block_t block, uint32_t unit)
{
    const uint32_t last_unit = mscclpp_dev_brief_coll_last_unit(block.bytes);
    mscclpp_dev_vec_t value = mscclpp_dev_vec_zero();

    unit = unit < last_unit ? unit : last_unit;
    if (block.bytes != 0) {
        value = mscclpp_dev_ld_unit((const char *)args->in + block.offset, unit, block.bytes);
    }
    mscclpp_dev_put_unit(mscclpp_dev_brief_coll_slot(args, coll, peer, args->rank, unit), coll->packets.half_gap, value,
                         coll->packets.flag, MSCCLPP_DEV_LL16);
}

/*
 * Sends this thread's units of the block for its row's peer, or the empty packet. Called by the threads that are in a
 * row. `max_units` is the maximum number of units of a thread, a constant.
 */
MSCCLPP_DEV void mscclpp_dev_brief_coll_send(const mscclpp_dev_args_t *args, const mscclpp_dev_brief_coll_t *coll,
                                             uint32_t max_units)
{
    const uint32_t peer = mscclpp_dev_coll_next(args, coll->row);
    const mscclpp_dev_brief_block_t block = mscclpp_dev_brief_coll_block(args, coll, peer, false);
    const uint32_t last_unit = mscclpp_dev_brief_coll_last_unit(block.bytes);
    uint32_t first;

    if (mscclpp_dev_brief_coll_warp_has_unit(coll->lane, last_unit)) {
        mscclpp_dev_brief_coll_send_unit(args, coll, peer, block, coll->lane);
    }
    for (first = coll->row_length; max_units > 1 && first <= last_unit; first += coll->row_length) {
        if (mscclpp_dev_brief_coll_warp_has_unit(first + coll->lane, last_unit)) {
            mscclpp_dev_brief_coll_send_unit(args, coll, peer, block, first + coll->lane);
        }
    }
}

/*
 * Receives this thread's units, or its empty packet, and stores the units. Called by the threads that are in a row.
 * Does not store this rank's own block if it is already in the output. If the wait fails, sets ctx->failed and stores
 * nothing. `max_units` is the maximum number of units of a thread, a constant. Each turn of the wait polls all of the
 * thread's packets.
 */
MSCCLPP_DEV void mscclpp_dev_brief_coll_move(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args,
                                             const mscclpp_dev_brief_coll_t *coll, uint32_t max_units)
{
    const uint32_t peer = mscclpp_dev_coll_previous(args, coll->row);
    const mscclpp_dev_brief_block_t block = mscclpp_dev_brief_coll_block(args, coll, peer, true);
    const uint32_t last_unit = mscclpp_dev_brief_coll_last_unit(block.bytes);
    /* Moves never combine, so it is enough to ask whether the call is in place. */
    const bool is_in_output = coll->row == 0 && MSCCLPP_DEV_BELL_IN_PLACE(coll->coll_word) != 0;
    mscclpp_dev_vec_t values[MSCCLPP_DEV_BRIEF_UNITS];
    uint32_t units[MSCCLPP_DEV_BRIEF_UNITS], i;
    mscclpp_dev_wait_t wait = {0, 0};
    bool is_late;

    if (!mscclpp_dev_brief_coll_warp_has_unit(coll->lane, last_unit)) {
        return;
    }
    MSCCLPP_DEV_UNROLL
    for (i = 0; i < max_units; ++i) {
        units[i] = i * coll->row_length + coll->lane;
        units[i] = units[i] < last_unit ? units[i] : last_unit;
    }
    do {
        is_late = false;
        MSCCLPP_DEV_UNROLL
        for (i = 0; i < max_units; ++i) {
            is_late =
                !mscclpp_dev_poll_unit(mscclpp_dev_brief_coll_slot(args, coll, args->rank, peer, units[i]),
                                       coll->packets.half_gap, &values[i], coll->packets.flag, MSCCLPP_DEV_LL16) ||
                is_late;
        }
    } while (is_late && mscclpp_dev_wait_turn(ctx, args, &wait, peer));
    if (ctx->failed || block.bytes == 0 || is_in_output) {
        return;
    }
    MSCCLPP_DEV_UNROLL
    for (i = 0; i < max_units; ++i) {
        if (mscclpp_dev_brief_coll_warp_has_unit(i * coll->row_length + coll->lane, last_unit)) {
            mscclpp_dev_st_unit((char *)args->out + block.offset, units[i], block.bytes, values[i],
                                MSCCLPP_DEV_WHOLE_UNIT);
        }
    }
}

/* Returns the number of ranks whose blocks this rank combines. They are ranks 0 to the result minus 1. */
MSCCLPP_DEV uint32_t mscclpp_dev_brief_coll_ranks_end(const mscclpp_dev_args_t *args,
                                                      const mscclpp_dev_brief_coll_t *coll)
{
    const uint32_t pattern = MSCCLPP_DEV_BELL_PATTERN(coll->coll_word);

    return pattern == MSCCLPP_DEV_SCAN                                                             ? args->rank + 1
           : pattern == MSCCLPP_DEV_EXSCAN                                                         ? args->rank
           : pattern == MSCCLPP_DEV_REDUCE && MSCCLPP_DEV_BELL_ROOT(coll->coll_word) != args->rank ? 0
                                                                                                   : args->nranks;
}

/*
 * Receives this thread's unit from each rank that has a block for this rank, combines the units in rank order, and
 * stores the result. Threads with unit 0 also receive the empty packets of the other ranks. If a wait fails, sets
 * ctx->failed and stores nothing. `batch` is a constant, at most MSCCLPP_DEV_BRIEF_BATCH: so many units are asked for
 * at once.
 */
MSCCLPP_DEV void mscclpp_dev_brief_coll_combine(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args,
                                                const mscclpp_dev_brief_coll_t *coll, uint32_t batch)
{
    const uint32_t bytes = coll->lists != NULL ? mscclpp_dev_brief_coll_own_bytes(args, coll) : (uint32_t)args->bytes;
    const uint32_t last_unit = mscclpp_dev_brief_coll_last_unit(bytes),
                   unit = ctx->tid < last_unit ? ctx->tid : last_unit;
    const uint32_t ranks_end = mscclpp_dev_brief_coll_ranks_end(args, coll),
                   senders_end = unit == 0 ? args->nranks : ranks_end;
    const bool is_hot =
        MSCCLPP_DEV_FOLDS && args->dtype == MSCCLPP_DTYPE_FLOAT32 && args->op == (uint32_t)MSCCLPP_OP_SUM;
    const char *slots = mscclpp_dev_brief_coll_slot(args, coll, args->rank, 0, unit);
    mscclpp_dev_vec_t units[MSCCLPP_DEV_BRIEF_BATCH];
    mscclpp_dev_brief_packets_t packets = coll->packets;
    mscclpp_dev_wait_t wait = {0, 0};
    mscclpp_dev_acc_t acc;
    uint32_t first, i, late_rank;

    if (!mscclpp_dev_brief_coll_warp_has_unit(ctx->tid, last_unit)) {
        return;
    }
    MSCCLPP_DEV_ROLLED
    for (first = 0; first < senders_end && !ctx->failed; first += batch) {
        do {
            late_rank = MSCCLPP_DEV_NOT_LATE;
            MSCCLPP_DEV_UNROLL
            for (i = 0; i < batch; ++i) {
                if (first + i < senders_end &&
                    !mscclpp_dev_poll_unit(slots + (first + i) * 2 * coll->packets.half_gap, coll->packets.half_gap,
                                           &units[i], coll->packets.flag, MSCCLPP_DEV_LL16)) {
                    late_rank = first + i;
                }
            }
        } while (late_rank != MSCCLPP_DEV_NOT_LATE && mscclpp_dev_wait_turn(ctx, args, &wait, late_rank));
        if (is_hot) {
            MSCCLPP_DEV_UNROLL
            for (i = 0; i < batch; ++i) {
                if (first + i == 0) {
                    mscclpp_dev_acc_set(&acc, MSCCLPP_DTYPE_FLOAT32, units[i]);
                } else if (first + i < ranks_end) {
                    mscclpp_dev_acc_add(&acc, true, MSCCLPP_DTYPE_FLOAT32, MSCCLPP_OP_SUM, units[i]);
                }
            }
        }
    }
    if (ctx->failed || ranks_end == 0 || bytes == 0) {
        return;
    }
    if (is_hot) {
        mscclpp_dev_st_unit(args->out, unit, bytes, mscclpp_dev_acc_get(&acc, MSCCLPP_DTYPE_FLOAT32),
                            MSCCLPP_DEV_WHOLE_UNIT);
    } else {
        packets.offset += (uint64_t)unit * MSCCLPP_DEV_PACKET_STEP;
        mscclpp_dev_brief_store_any(args, packets, unit, ranks_end, bytes);
    }
}

/*
 * Executes a brief operation of a collective other than all-reduce, and reports its end. Called by all threads of the
 * first block (`whole_block`), or by its first warp alone. The operation came by the bell. `coll_word` is the bell's
 * word COLL. `lists` points to the bell's words from MSCCLPP_DEV_BELL_LIST on; it is the constant NULL if there
 * are no lists. `max_units` is the maximum number of units of a thread, a constant. A row has 1 << `row_shift` threads.
 * `launches` is the number of operations that have ended. A thread that has failed before sends nothing, and a thread
 * that gives up stores nothing.
 */
MSCCLPP_DEV void mscclpp_dev_brief_coll_run(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_args_t *args, uint32_t coll_word,
                                            const uint32_t *lists, uint32_t max_units, uint32_t row_shift,
                                            uint64_t launches, bool whole_block)
{
    const uint32_t flag = args->epoch + 1;
    const mscclpp_dev_brief_t brief = {launches, flag, 1, whole_block ? ctx->nthreads : MSCCLPP_DEV_WARP};
    const mscclpp_dev_brief_coll_t coll = {{(uint64_t)args->oneshot_capacity * MSCCLPP_DEV_PACKET_STEP,
                                            MSCCLPP_DEV_PACKET_OFFSET + (flag & 1) * args->packet_half, flag},
                                           args->bytes + MSCCLPP_DEV_BELL_PADDING(coll_word),
                                           lists,
                                           coll_word,
                                           ctx->tid & ((1u << row_shift) - 1),
                                           ctx->tid >> row_shift,
                                           1u << row_shift};
    const bool is_in_row = coll.row < args->nranks && !ctx->failed;

    if (is_in_row) {
        mscclpp_dev_brief_coll_send(args, &coll, max_units);
    }
    if (MSCCLPP_DEV_BELL_IN_PLACE(coll_word) != 0) { /* no thread stores before all threads have read their operands */
        if (whole_block) {
            mscclpp_dev_block_sync(ctx);
        } else {
            mscclpp_dev_warp_meet();
        }
    }
    mscclpp_dev_brief_advance(ctx, args, &brief);
    if (MSCCLPP_DEV_COMBINES(MSCCLPP_DEV_BELL_PATTERN(coll_word))) {
        if (!ctx->failed) {
            if (args->nranks == 2) { /* code for units that are not there would be fetched, too */
                mscclpp_dev_brief_coll_combine(ctx, args, &coll, 2);
            } else {
                mscclpp_dev_brief_coll_combine(ctx, args, &coll, MSCCLPP_DEV_BRIEF_BATCH);
            }
        }
    } else if (is_in_row) {
        mscclpp_dev_brief_coll_move(ctx, args, &coll, max_units);
    }
    mscclpp_dev_brief_end(ctx, args, launches, whole_block);
}

/*
 * mscclpp_dev_brief_coll_run without and with lists, and with one unit and with several units a thread. Not inlined,
 * for the same reason as the operations of linger_serve.h. Each function returns true if a thread has failed.
 */
#define MSCCLPP_DEV_LINGER_BRIEF_COLL(name_, lists_, max_)                                                             \
    MSCCLPP_DEV_OUTLINE bool mscclpp_dev_linger_brief_##name_(mscclpp_dev_ctx_t ctx, const mscclpp_dev_args_t *args,   \
                                                              uint32_t coll_word, const uint32_t *lists,               \
                                                              uint32_t row_shift, uint64_t launches, bool whole_block) \
    {                                                                                                                  \
        (void)lists;                                                                                                   \
        mscclpp_dev_brief_coll_run(&ctx, args, coll_word, lists_, max_, row_shift, launches, whole_block);             \
        return ctx.failed;                                                                                             \
    }
MSCCLPP_DEV_LINGER_BRIEF_COLL(coll, NULL, 1)
MSCCLPP_DEV_LINGER_BRIEF_COLL(coll_long, NULL, MSCCLPP_DEV_BRIEF_UNITS)
MSCCLPP_DEV_LINGER_BRIEF_COLL(blocks, lists, 1)
MSCCLPP_DEV_LINGER_BRIEF_COLL(blocks_long, lists, MSCCLPP_DEV_BRIEF_UNITS)
#undef MSCCLPP_DEV_LINGER_BRIEF_COLL

/*
 * Executes a brief operation as mscclpp_dev_brief_coll_run does. Returns true if a thread has failed. `lists` is not
 * NULL; `has_lists` says that the operation has lists there. Not inlined, so that all-reduces do not jump over this
 * code.
 */
MSCCLPP_DEV_OUTLINE bool mscclpp_dev_linger_serve_brief_coll(mscclpp_dev_ctx_t ctx, const mscclpp_dev_args_t *args,
                                                             uint32_t coll_word, const uint32_t *lists, bool has_lists,
                                                             uint32_t row_shift, uint64_t launches, bool whole_block)
{
    const bool is_long = args->bytes > (uint64_t)MSCCLPP_DEV_UNIT << row_shift;

    if (!is_long) {
        return has_lists
                   ? mscclpp_dev_linger_brief_blocks(ctx, args, coll_word, lists, row_shift, launches, whole_block)
                   : mscclpp_dev_linger_brief_coll(ctx, args, coll_word, lists, row_shift, launches, whole_block);
    }
    return has_lists
               ? mscclpp_dev_linger_brief_blocks_long(ctx, args, coll_word, lists, row_shift, launches, whole_block)
               : mscclpp_dev_linger_brief_coll_long(ctx, args, coll_word, lists, row_shift, launches, whole_block);
}

#endif
