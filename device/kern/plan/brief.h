/*
 * Runs a short execution plan in little code. Such a plan only moves data by packets, and its messages are so small
 * that jumps to code which is not in the instruction cache would take longer than the data. So one loop serves all
 * steps, and each thread computes the places of its items as it comes to them.
 */
#ifndef MSCCLPP_DEVICE_KERN_PLAN_BRIEF_H
#define MSCCLPP_DEVICE_KERN_PLAN_BRIEF_H

#include "device/kern/plan/data.h"

/*
 * Returns true if mscclpp_dev_plan_brief can run the program: it fits the block's own memory and consists of nops and
 * of data steps outside loops and groups, packets are of format LL16 and order nothing else, and no step is long.
 */
MSCCLPP_DEV bool mscclpp_dev_plan_is_brief(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_plan_args_t *args)
{
    return args->brief_chunks != 0 && args->programs != NULL && args->orders == 0 && args->width == MSCCLPP_DEV_LL16 &&
           args->brief_chunks * args->chunk <=
               (uint64_t)MSCCLPP_DEV_PLAN_NARROW_UNITS * MSCCLPP_DEV_UNIT * ctx->nthreads;
}

/*
 * Loads a unit of a span into *value. Returns false, with *value undefined, if the unit's packets have not arrived.
 */
MSCCLPP_DEV bool mscclpp_dev_plan_brief_load(const mscclpp_dev_plan_args_t *args, const mscclpp_dev_plan_span_t *span,
                                             uint32_t unit, uint32_t flag, mscclpp_dev_vec_t *value)
{
    char *slot;
    bool has_arrived;

    if (span->packets == 0) {
        *value = mscclpp_dev_plan_is_whole_unit(span, unit)
                     ? mscclpp_dev_ld_vec(span->address + (uint64_t)unit * MSCCLPP_DEV_UNIT)
                     : mscclpp_dev_plan_load_part(span->address, unit, span->bytes);
        return true;
    }
    slot = mscclpp_dev_plan_slot(args, span->address, unit);
    has_arrived = mscclpp_dev_poll_unit(slot, args->packet_gap, value, flag, MSCCLPP_DEV_LL16);
    if (has_arrived) {
        MSCCLPP_DEV_SAW_PACKET(slot);
    }
    return has_arrived;
}

/*
 * Combines a unit of a step's sources in their order, and stores it to all targets. If a wait fails, sets ctx->failed
 * and stores nothing. `batch` is a constant, at most MSCCLPP_DEV_PLAN_SOURCES: so many sources are asked for at once.
 * If it is 1, there is only one source.
 */
MSCCLPP_DEV void mscclpp_dev_plan_brief_unit(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_plan_args_t *args,
                                             const mscclpp_dev_plan_step_t *step, const mscclpp_dev_plan_item_t *items,
                                             uint32_t unit, uint32_t flag, bool hot, int dtype, int op, uint32_t batch)
{
    mscclpp_dev_vec_t values[MSCCLPP_DEV_PLAN_SOURCES];
    mscclpp_dev_plan_span_t span;
    mscclpp_dev_acc_t acc;
    uint32_t i, j;

    for (i = 0; i < (batch == 1 ? 1 : step->sources); i += batch) {
        const uint32_t count = batch == 1 || step->sources - i > batch ? batch : step->sources - i;
        mscclpp_dev_wait_t wait = {0, 0};
        uint32_t missing_mask = (1u << count) - 1, late_rank = 0;

        do {
            MSCCLPP_DEV_UNROLL
            for (j = 0; j < batch; ++j) {
                if ((missing_mask >> j & 1) != 0) {
                    span = mscclpp_dev_plan_span_of(args, &items[i + j], flag);
                    if (mscclpp_dev_plan_brief_load(args, &span, unit, flag, &values[j])) {
                        missing_mask &= ~(1u << j);
                    } else {
                        late_rank = span.rank;
                    }
                }
            }
        } while (missing_mask != 0 && mscclpp_dev_wait_turn(ctx, &args->common, &wait, args->late_ranks[late_rank]));
        MSCCLPP_DEV_UNROLL
        for (j = 0; j < batch && batch > 1; ++j) {
            if (i + j == 0) {
                mscclpp_dev_acc_set(&acc, dtype, values[0]);
            } else if (j < count) {
                mscclpp_dev_acc_add(&acc, hot, dtype, op, values[j]);
            }
        }
    }
    if (ctx->failed) {
        return;
    }
    if (batch > 1) {
        values[0] = mscclpp_dev_acc_get(&acc, dtype);
    }
    for (i = 0; i < step->targets; ++i) {
        span = mscclpp_dev_plan_span_of(args, &items[step->sources + i], flag);
        mscclpp_dev_plan_store(args, &span, unit, flag, values[0], mscclpp_dev_unit_mask(dtype));
    }
}

/*
 * Executes the block's program, whose copy the block's threads have completed (mscclpp_dev_plan_is_brief). `flag` is
 * the flag of this launch's packets. After a failure it stores nothing more.
 */
MSCCLPP_DEV void mscclpp_dev_plan_brief(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_plan_args_t *args,
                                        const mscclpp_dev_plan_copy_t *copy, uint32_t flag, bool hot, int dtype, int op)
{
    const mscclpp_dev_plan_step_t *step = copy->steps;
    const mscclpp_dev_plan_item_t *items =
        (const mscclpp_dev_plan_item_t *)(const void *)(copy->steps + args->max_steps);
    uint32_t unit, units;

    for (; step->code != MSCCLPP_DEV_PLAN_END; ++step) {
        if (step->code == MSCCLPP_DEV_PLAN_NOP) {
            ctx->failed = mscclpp_dev_block_sync_or(ctx, ctx->failed);
            continue;
        }
        units = (uint32_t)(step->size * args->chunk / MSCCLPP_DEV_UNIT);
        /* Few sources have code of their own: code for sources that are not there would be fetched, too. */
        for (unit = ctx->tid; unit < units && !ctx->failed; unit += ctx->nthreads) {
            if (step->sources == 1) {
                mscclpp_dev_plan_brief_unit(ctx, args, step, items + step->items, unit, flag, hot, dtype, op, 1);
            } else if (step->sources == 2) {
                mscclpp_dev_plan_brief_unit(ctx, args, step, items + step->items, unit, flag, hot, dtype, op, 2);
            } else {
                mscclpp_dev_plan_brief_unit(ctx, args, step, items + step->items, unit, flag, hot, dtype, op,
                                            MSCCLPP_DEV_PLAN_SOURCES);
            }
        }
    }
}

#endif
