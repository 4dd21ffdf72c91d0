/*
 * The steps of an execution plan that move data: sources are combined, and the result goes to all targets.
 */
#ifndef MSCCLPP_DEVICE_KERN_PLAN_DATA_H
#define MSCCLPP_DEVICE_KERN_PLAN_DATA_H

#include "device/kern/plan/batches.h"

/* Sources of a unit that a thread asks for before it uses the first one. */
#define MSCCLPP_DEV_PLAN_SOURCES 4u

/*
 * Waits for a unit's packets from all sources, for plans in which packets also order other accesses. Afterwards, this
 * thread sees all that the senders of the packets did before they sent them. So the caller reads the unit's plain
 * sources only then. If a wait fails, sets ctx->failed.
 */
MSCCLPP_DEV_OUTLINE void mscclpp_dev_plan_after_packets(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_plan_args_t *args,
                                                        const mscclpp_dev_plan_step_t *step,
                                                        const mscclpp_dev_plan_run_t *run, uint64_t first_byte,
                                                        uint64_t unit)
{
    bool has_packets = false;
    uint32_t i;

    for (i = 0; i < step->sources && !ctx->failed; ++i) {
        const mscclpp_dev_plan_span_t span = mscclpp_dev_plan_span(args, run, step->items + i, first_byte);

        if (span.packets != 0) {
            mscclpp_dev_vec_t value;

            mscclpp_dev_plan_await_unit(ctx, args, &span, unit, run->flag, &value);
            has_packets = true;
        }
    }
    if (has_packets) {
        mscclpp_dev_fence_acq_rel_sys();
    }
}

/*
 * Returns a unit of all sources of a step, combined in their order. Takes some sources at a time: first tries all of
 * them, and then again those whose packets have not arrived; plain sources need no second try. If a wait fails, sets
 * ctx->failed, and the value is arbitrary.
 */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_plan_combine(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_plan_args_t *args,
                                                       const mscclpp_dev_plan_step_t *step,
                                                       const mscclpp_dev_plan_run_t *run, uint64_t first_byte,
                                                       uint64_t unit, bool hot, int dtype, int op)
{
    mscclpp_dev_vec_t values[MSCCLPP_DEV_PLAN_SOURCES];
    mscclpp_dev_plan_span_t span;
    mscclpp_dev_acc_t acc;
    uint32_t i, j;

    for (i = 0; i < step->sources; i += MSCCLPP_DEV_PLAN_SOURCES) {
        const uint32_t sources_left = step->sources - i;
        const uint32_t count = sources_left < MSCCLPP_DEV_PLAN_SOURCES ? sources_left : MSCCLPP_DEV_PLAN_SOURCES;
        mscclpp_dev_wait_t wait = {0, 0};
        uint32_t missing_mask = (1u << count) - 1, late_rank = 0;

        do {
            MSCCLPP_DEV_UNROLL
            for (j = 0; j < MSCCLPP_DEV_PLAN_SOURCES; ++j) {
                if ((missing_mask >> j & 1) != 0) {
                    span = mscclpp_dev_plan_span(args, run, step->items + i + j, first_byte);
                    if (mscclpp_dev_plan_try_load(args, &span, unit, run->flag, &values[j])) {
                        missing_mask &= ~(1u << j);
                    } else {
                        late_rank = span.rank;
                    }
                }
            }
        } while (missing_mask != 0 && mscclpp_dev_wait_turn(ctx, &args->common, &wait, args->late_ranks[late_rank]));
        MSCCLPP_DEV_UNROLL
        for (j = 0; j < MSCCLPP_DEV_PLAN_SOURCES; ++j) {
            if (i + j == 0) {
                mscclpp_dev_acc_set(&acc, dtype, values[0]);
            } else if (j < count) {
                mscclpp_dev_acc_add(&acc, hot, dtype, op, values[j]);
            }
        }
    }
    return mscclpp_dev_acc_get(&acc, dtype);
}

/*
 * Returns the value of a unit that a step stores: the unit of its only source, or the combination of all sources. If a
 * wait fails, sets ctx->failed, and the value is arbitrary.
 */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_plan_value(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_plan_args_t *args,
                                                     const mscclpp_dev_plan_step_t *step,
                                                     const mscclpp_dev_plan_run_t *run, uint64_t first_byte,
                                                     uint64_t unit, bool hot, int dtype, int op)
{
    mscclpp_dev_vec_t value = mscclpp_dev_vec_zero();

    if (step->sources == 1) {
        const mscclpp_dev_plan_span_t span = mscclpp_dev_plan_span(args, run, step->items, first_byte);

        mscclpp_dev_plan_await_unit(ctx, args, &span, unit, run->flag, &value);
        return value;
    }
    return mscclpp_dev_plan_combine(ctx, args, step, run, first_byte, unit, hot, dtype, op);
}

/*
 * Executes a step that moves data: combines all sources, unit by unit, and stores the result to all targets. Targets
 * that hold packets are the last in the list. If a wait for packets fails, the thread stores nothing more in this step.
 * `wide` is a constant: whether this is the kernel for steps that move much, which has code for batches. `hot`: `dtype`
 * and `op` are constants.
 */
MSCCLPP_DEV void mscclpp_dev_plan_data(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_plan_args_t *args,
                                       const mscclpp_dev_plan_step_t *step, const mscclpp_dev_plan_run_t *run,
                                       bool wide, bool hot, int dtype, int op)
{
    const mscclpp_dev_plan_slice_t slice = mscclpp_dev_plan_slice(args, step, run);
    const uint64_t units = mscclpp_dev_units(slice.bytes);
    const uint32_t mask = mscclpp_dev_unit_mask(dtype);
    uint64_t unit = ctx->tid;
    mscclpp_dev_plan_span_t span;
    mscclpp_dev_vec_t value;
    uint32_t i;

    /*
     * Batches store whole units, so they are not used for types with padding. The loop below handles the units that
     * they leave.
     */
    if (wide && units >= (uint64_t)MSCCLPP_DEV_PLAN_BATCH * ctx->nthreads && mask == MSCCLPP_DEV_WHOLE_UNIT) {
        unit = mscclpp_dev_plan_batches_if_whole(*ctx, args, step, run, slice, hot, dtype, op);
        ctx->failed = ctx->failed || unit == MSCCLPP_DEV_PLAN_GAVE_UP;
    }
    for (; unit < units; unit += ctx->nthreads) {
        bool is_first_packet = true;

        if (args->orders != 0) {
            mscclpp_dev_plan_after_packets(ctx, args, step, run, slice.first_byte, unit);
        }
        value = mscclpp_dev_plan_value(ctx, args, step, run, slice.first_byte, unit, hot, dtype, op);
        if (ctx->failed) {
            return;
        }
        for (i = 0; i < step->targets; ++i) {
            span = mscclpp_dev_plan_span(args, run, step->items + step->sources + i, slice.first_byte);
            /* The packets also show that this thread has finished its reads and stores so far. */
            if (args->orders != 0 && span.packets != 0 && is_first_packet) {
                mscclpp_dev_fence_acq_rel_sys();
                is_first_packet = false;
            }
            mscclpp_dev_plan_store(args, &span, unit, run->flag, value, mask);
        }
    }
}

#endif
