/*
 * Steps of an execution plan that move much data, by batches: a thread has several units under way at once, so that the
 * latencies of its loads overlap.
 */
#ifndef MSCCLPP_DEVICE_KERN_PLAN_BATCHES_H
#define MSCCLPP_DEVICE_KERN_PLAN_BATCHES_H

#include "device/kern/plan/span.h"

/* Units of each operand that a thread loads before it uses the first, so that the latencies of the loads overlap. */
#define MSCCLPP_DEV_PLAN_BATCH 4u

/*
 * Returns true if all items of the step consist of whole, aligned units, and none is cut off by the end of its block.
 * *has_packets then tells whether some hold packets; after false it tells nothing.
 */
MSCCLPP_DEV bool mscclpp_dev_plan_has_whole_units(const mscclpp_dev_plan_args_t *args,
                                                  const mscclpp_dev_plan_step_t *step,
                                                  const mscclpp_dev_plan_run_t *run, mscclpp_dev_plan_slice_t slice,
                                                  bool *has_packets)
{
    uintptr_t size_and_address_bits = slice.bytes; /* of the size and all addresses, combined by OR */
    uint32_t i;

    *has_packets = false;
    for (i = 0; i < step->sources + step->targets; ++i) {
        const mscclpp_dev_plan_span_t span = mscclpp_dev_plan_span(args, run, step->items + i, slice.first_byte);

        if (span.bytes < slice.bytes) {
            return false;
        }
        *has_packets = *has_packets || span.packets != 0;
        size_and_address_bits |= (uintptr_t)span.address;
    }
    return size_and_address_bits % MSCCLPP_DEV_UNIT == 0;
}

/* Loads a batch of units into `values`: the first one is at `from`, and they are `stride` units apart. */
MSCCLPP_DEV void mscclpp_dev_plan_load_batch(const char *from, uint64_t stride, mscclpp_dev_vec_t *values)
{
    uint32_t i;

    MSCCLPP_DEV_UNROLL
    for (i = 0; i < MSCCLPP_DEV_PLAN_BATCH; ++i) {
        values[i] = mscclpp_dev_ld_vec(from + i * stride * MSCCLPP_DEV_UNIT);
    }
}

/* Returns the address of a unit of an item, counted from byte `first_byte` of its chunks. */
MSCCLPP_DEV char *mscclpp_dev_plan_unit_address(const mscclpp_dev_plan_args_t *args, const mscclpp_dev_plan_run_t *run,
                                                uint32_t item, uint64_t first_byte, uint64_t unit)
{
    return mscclpp_dev_plan_span(args, run, item, first_byte).address + unit * MSCCLPP_DEV_UNIT;
}

/*
 * Executes a step on whole units, batch by batch, as long as this thread has whole batches. The step's items must be
 * whole (mscclpp_dev_plan_has_whole_units), so that no unit has to be waited for or is cut off. The thread loads its
 * units of the next operand while it combines those of the current one. Returns this thread's first unit that is left.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_plan_batches(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_plan_args_t *args,
                                              const mscclpp_dev_plan_step_t *step, const mscclpp_dev_plan_run_t *run,
                                              mscclpp_dev_plan_slice_t slice, bool hot, int dtype, int op)
{
    const uint64_t stride = ctx->nthreads, units = slice.bytes / MSCCLPP_DEV_UNIT;
    mscclpp_dev_vec_t values[MSCCLPP_DEV_PLAN_BATCH], next_values[MSCCLPP_DEV_PLAN_BATCH];
    mscclpp_dev_acc_t acc[MSCCLPP_DEV_PLAN_BATCH];
    uint64_t unit;
    uint32_t i, j;

    for (unit = ctx->tid; unit + (MSCCLPP_DEV_PLAN_BATCH - 1) * stride < units;
         unit += MSCCLPP_DEV_PLAN_BATCH * stride) {
        mscclpp_dev_plan_load_batch(mscclpp_dev_plan_unit_address(args, run, step->items, slice.first_byte, unit),
                                    stride, values);
        if (step->sources > 1) {
            mscclpp_dev_plan_load_batch(
                mscclpp_dev_plan_unit_address(args, run, step->items + 1, slice.first_byte, unit), stride, next_values);
            MSCCLPP_DEV_UNROLL
            for (j = 0; j < MSCCLPP_DEV_PLAN_BATCH; ++j) {
                mscclpp_dev_acc_set(&acc[j], dtype, values[j]);
            }
            for (i = 1; i < step->sources; ++i) {
                MSCCLPP_DEV_UNROLL
                for (j = 0; j < MSCCLPP_DEV_PLAN_BATCH; ++j) {
                    values[j] = next_values[j];
                }
                /* The next source's units are loaded while this one's are combined. */
                if (i + 1 < step->sources) {
                    mscclpp_dev_plan_load_batch(
                        mscclpp_dev_plan_unit_address(args, run, step->items + i + 1, slice.first_byte, unit), stride,
                        next_values);
                }
                MSCCLPP_DEV_UNROLL
                for (j = 0; j < MSCCLPP_DEV_PLAN_BATCH; ++j) {
                    mscclpp_dev_acc_add(&acc[j], hot, dtype, op, values[j]);
                }
            }
            MSCCLPP_DEV_UNROLL
            for (j = 0; j < MSCCLPP_DEV_PLAN_BATCH; ++j) {
                values[j] = mscclpp_dev_acc_get(&acc[j], dtype);
            }
        }
        for (i = 0; i < step->targets; ++i) {
            char *to =
                mscclpp_dev_plan_unit_address(args, run, step->items + step->sources + i, slice.first_byte, unit);

            MSCCLPP_DEV_UNROLL
            for (j = 0; j < MSCCLPP_DEV_PLAN_BATCH; ++j) {
                mscclpp_dev_st_vec(to + j * stride * MSCCLPP_DEV_UNIT, values[j]);
            }
        }
    }
    return unit;
}

/*
 * A thread's next units of a step with packets: `first` and those that follow it, ctx->nthreads apart, up to the last
 * of `units` units. A thread with fewer than a batch loads its first unit several times, so that its loads need no
 * branches, and stores it once. Other threads may be writing theirs meanwhile.
 */
typedef struct {
    uint64_t first, units;
} mscclpp_dev_plan_batch_t;

/* Returns the number of unit `i` of a batch, to be loaded. */
MSCCLPP_DEV uint64_t mscclpp_dev_plan_batch_unit(const mscclpp_dev_ctx_t *ctx, mscclpp_dev_plan_batch_t batch,
                                                 uint32_t i)
{
    const uint64_t unit = batch.first + i * (uint64_t)ctx->nthreads;

    return unit < batch.units ? unit : batch.first;
}

/* Takes one turn of a wait (mscclpp_dev_wait_turn). Out of line, because registers are scarce in batches. */
MSCCLPP_DEV_OUTLINE bool mscclpp_dev_plan_wait_turn(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_plan_args_t *args,
                                                    mscclpp_dev_wait_t *wait, uint32_t rank)
{
    return mscclpp_dev_wait_turn(ctx, &args->common, wait, args->late_ranks[rank]);
}

/*
 * Loads a batch of an item, packets or not, into `values`. Waits for packets. If the wait fails, sets ctx->failed, and
 * `values` are arbitrary.
 */
MSCCLPP_DEV void mscclpp_dev_plan_await_batch(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_plan_args_t *args,
                                              const mscclpp_dev_plan_span_t *span, uint32_t flag,
                                              mscclpp_dev_plan_batch_t batch, mscclpp_dev_vec_t *values)
{
    mscclpp_dev_wait_t wait = {0, 0};
    bool has_arrived;
    uint32_t i;

    if (span->packets == 0) {
        MSCCLPP_DEV_UNROLL
        for (i = 0; i < MSCCLPP_DEV_PLAN_BATCH; ++i) {
            values[i] =
                mscclpp_dev_ld_vec(span->address + mscclpp_dev_plan_batch_unit(ctx, batch, i) * MSCCLPP_DEV_UNIT);
        }
        return;
    }
    /* If one unit is late, all are read again: without branches between them, the loads overlap. */
    do {
        has_arrived = true;
        MSCCLPP_DEV_UNROLL
        for (i = 0; i < MSCCLPP_DEV_PLAN_BATCH; ++i) {
            has_arrived &= mscclpp_dev_poll_unit(
                mscclpp_dev_plan_slot(args, span->address, mscclpp_dev_plan_batch_unit(ctx, batch, i)),
                args->packet_gap, &values[i], flag, MSCCLPP_DEV_LL16);
        }
    } while (!has_arrived && mscclpp_dev_plan_wait_turn(ctx, args, &wait, span->rank));
    MSCCLPP_DEV_UNROLL
    for (i = 0; i < MSCCLPP_DEV_PLAN_BATCH; ++i) {
        MSCCLPP_DEV_SAW_PACKET(mscclpp_dev_plan_slot(args, span->address, mscclpp_dev_plan_batch_unit(ctx, batch, i)));
    }
}

/* Stores a batch to an item, as packets if the item holds packets. */
MSCCLPP_DEV void mscclpp_dev_plan_put_batch(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_plan_args_t *args,
                                            const mscclpp_dev_plan_span_t *span, uint32_t flag,
                                            mscclpp_dev_plan_batch_t batch, const mscclpp_dev_vec_t *values)
{
    uint32_t i;

    MSCCLPP_DEV_UNROLL
    for (i = 0; i < MSCCLPP_DEV_PLAN_BATCH; ++i) {
        const uint64_t unit = batch.first + i * (uint64_t)ctx->nthreads;

        if (unit < batch.units && span->packets == 0) {
            mscclpp_dev_st_vec(span->address + unit * MSCCLPP_DEV_UNIT, values[i]);
        } else if (unit < batch.units) {
            char *slot = mscclpp_dev_plan_slot(args, span->address, unit);

            MSCCLPP_DEV_SENDS_PACKET(slot);
            mscclpp_dev_put_unit(slot, args->packet_gap, values[i], flag, MSCCLPP_DEV_LL16);
        }
    }
}

/*
 * Executes a step with packets on whole units, batch by batch. The items must be whole
 * (mscclpp_dev_plan_has_whole_units). Returns false if a wait for packets failed; after that, nothing is stored.
 *
 * A thread waits for all packets of a batch before it stores a unit of it. No plan without faults needs these stores
 * for those packets: in the simulation (mscclpp_plan_simulate), an operation begins when all of its packets are there.
 */
MSCCLPP_DEV bool mscclpp_dev_plan_packet_batches(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_plan_args_t *args,
                                                 const mscclpp_dev_plan_step_t *step, const mscclpp_dev_plan_run_t *run,
                                                 mscclpp_dev_plan_slice_t slice, bool hot, int dtype, int op)
{
    mscclpp_dev_plan_batch_t batch = {ctx->tid, slice.bytes / MSCCLPP_DEV_UNIT};
    mscclpp_dev_vec_t values[MSCCLPP_DEV_PLAN_BATCH];
    mscclpp_dev_acc_t acc[MSCCLPP_DEV_PLAN_BATCH];
    mscclpp_dev_plan_span_t span;
    uint32_t i, j;

    for (; batch.first < batch.units; batch.first += MSCCLPP_DEV_PLAN_BATCH * (uint64_t)ctx->nthreads) {
        for (i = 0; i < step->sources; ++i) {
            span = mscclpp_dev_plan_span(args, run, step->items + i, slice.first_byte);
            mscclpp_dev_plan_await_batch(ctx, args, &span, run->flag, batch, values);
            MSCCLPP_DEV_UNROLL
            for (j = 0; j < MSCCLPP_DEV_PLAN_BATCH; ++j) {
                if (i == 0) {
                    mscclpp_dev_acc_set(&acc[j], dtype, values[j]);
                } else {
                    mscclpp_dev_acc_add(&acc[j], hot, dtype, op, values[j]);
                }
            }
        }
        if (ctx->failed) {
            return false;
        }
        for (j = 0; j < MSCCLPP_DEV_PLAN_BATCH && step->sources > 1; ++j) {
            values[j] = mscclpp_dev_acc_get(&acc[j], dtype);
        }
        for (i = 0; i < step->targets; ++i) {
            span = mscclpp_dev_plan_span(args, run, step->items + step->sources + i, slice.first_byte);
            mscclpp_dev_plan_put_batch(ctx, args, &span, run->flag, batch, values);
        }
    }
    return true;
}

/*
 * Call mscclpp_dev_plan_batches and mscclpp_dev_plan_packet_batches for types and operations that are looked up at run
 * time. Out of line, because inlined code would take more registers than there are.
 */
MSCCLPP_DEV_OUTLINE uint64_t mscclpp_dev_plan_batches_any(mscclpp_dev_ctx_t ctx, const mscclpp_dev_plan_args_t *args,
                                                          const mscclpp_dev_plan_step_t *step,
                                                          const mscclpp_dev_plan_run_t *run,
                                                          mscclpp_dev_plan_slice_t slice, int dtype, int op)
{
    return mscclpp_dev_plan_batches(&ctx, args, step, run, slice, false, dtype, op);
}

MSCCLPP_DEV_OUTLINE bool mscclpp_dev_plan_packet_batches_any(mscclpp_dev_ctx_t ctx, const mscclpp_dev_plan_args_t *args,
                                                             const mscclpp_dev_plan_step_t *step,
                                                             const mscclpp_dev_plan_run_t *run,
                                                             mscclpp_dev_plan_slice_t slice, int dtype, int op)
{
    return mscclpp_dev_plan_packet_batches(&ctx, args, step, run, slice, false, dtype, op);
}

/* What mscclpp_dev_plan_batches_if_whole returns after a wait that failed: no unit. */
#define MSCCLPP_DEV_PLAN_GAVE_UP (~(uint64_t)0)

/*
 * Executes a step by batches if its items are whole: with packets of format LL16 that order nothing else by
 * mscclpp_dev_plan_packet_batches, without packets by mscclpp_dev_plan_batches. Returns this thread's first unit that
 * is left, its very first one if there were no batches, or MSCCLPP_DEV_PLAN_GAVE_UP.
 *
 * `hot`: `dtype` and `op` are constants.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_plan_batches_if_whole(mscclpp_dev_ctx_t ctx, const mscclpp_dev_plan_args_t *args,
                                                       const mscclpp_dev_plan_step_t *step,
                                                       const mscclpp_dev_plan_run_t *run,
                                                       mscclpp_dev_plan_slice_t slice, bool hot, int dtype, int op)
{
    const uint64_t all_units = slice.bytes / MSCCLPP_DEV_UNIT;
    bool has_packets;

    if (!mscclpp_dev_plan_has_whole_units(args, step, run, slice, &has_packets) ||
        (has_packets && (args->width != MSCCLPP_DEV_LL16 || args->orders != 0))) {
        return ctx.tid;
    }
    if (hot && !has_packets) {
        return mscclpp_dev_plan_batches(&ctx, args, step, run, slice, true, dtype, op);
    }
    if (hot) {
        return mscclpp_dev_plan_packet_batches(&ctx, args, step, run, slice, true, dtype, op)
                   ? all_units
                   : MSCCLPP_DEV_PLAN_GAVE_UP;
    }
    if (has_packets) {
        return mscclpp_dev_plan_packet_batches_any(ctx, args, step, run, slice, dtype, op) ? all_units
                                                                                           : MSCCLPP_DEV_PLAN_GAVE_UP;
    }
    return mscclpp_dev_plan_batches_any(ctx, args, step, run, slice, dtype, op);
}

#endif
