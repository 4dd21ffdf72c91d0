/*
 * The steps of an execution plan that move data: sources are combined, and the result goes to all targets. In the
 * functions below, `first_byte` and `bytes` say which bytes of a step's chunks a block handles
 * (mscclpp_dev_plan_slice).
 *
 * What a launch's arguments say of steps and items is computed once, by all threads of the block together, where the
 * program fits the block's own memory (mscclpp_dev_plan_prepare). In small messages, this arithmetic would take longer
 * than the data.
 */
#ifndef MSCCLPP_DEVICE_KERN_PLAN_DATA_H
#define MSCCLPP_DEVICE_KERN_PLAN_DATA_H

#include "device/lib/packet.h"
#include "device/lib/reduce.h"
#include "device/types/hot.h"
#include "device/types/plan.h"

/* A block's program. */
typedef struct {
    const mscclpp_dev_plan_step_t *steps;
    const mscclpp_dev_plan_item_t *items;
    const mscclpp_dev_plan_link_t *links;
    const mscclpp_dev_plan_slice_t *slices; /* of each step, where it is in no loop; NULL: computed at each use */
    const mscclpp_dev_plan_span_t *spans;   /* of each item; NULL with `slices` */
} mscclpp_dev_plan_program_t;

/* The progress of a block in its program. */
typedef struct {
    mscclpp_dev_plan_program_t program;
    uint64_t turn, turns; /* the current turn, and the number of turns, of the loop that the block is in; 0 turns: it is
                             in no loop */
    uint64_t unit;        /* bytes that a turn handles */
    uint32_t flag;        /* the flag in the packets of this launch */
} mscclpp_dev_plan_run_t;

/*
 * Returns the bytes of a step that this block handles, for a step that is in no loop. If a group of blocks shares the
 * step, they are the block's part, else all bytes. Chunks are multiples of the alignment, so the parts of a group cover
 * all bytes. If the chunks do not divide evenly, the first parts are longer by one alignment. The range may be empty.
 */
MSCCLPP_DEV mscclpp_dev_plan_slice_t mscclpp_dev_plan_slice_outside_loop(const mscclpp_dev_plan_args_t *args,
                                                                         const mscclpp_dev_plan_step_t *step)
{
    const uint64_t total = step->size * args->chunk;
    mscclpp_dev_plan_slice_t slice = {0, total};

    if (step->parts > 0) {
        const uint64_t units = total / args->alignment;
        const uint64_t units_each = units / step->parts;
        const uint64_t longer_parts = units % step->parts;

        slice.first_byte =
            (step->part * units_each + (step->part < longer_parts ? step->part : longer_parts)) * args->alignment;
        slice.bytes = (units_each + (step->part < longer_parts)) * args->alignment;
    }
    return slice;
}

/*
 * Returns the bytes of a step that this block handles now. In a loop, they are those of the current turn; the last turn
 * may have fewer. Otherwise they are as mscclpp_dev_plan_slice_outside_loop says. `step` must be in the block's
 * program, because its index selects the slice.
 */
MSCCLPP_DEV mscclpp_dev_plan_slice_t mscclpp_dev_plan_slice(const mscclpp_dev_plan_args_t *args,
                                                            const mscclpp_dev_plan_step_t *step,
                                                            const mscclpp_dev_plan_run_t *run)
{
    const uint64_t total = step->size * args->chunk;
    mscclpp_dev_plan_slice_t slice;

    if (run->turns == 0) {
        return run->program.slices != NULL ? run->program.slices[step - run->program.steps]
                                           : mscclpp_dev_plan_slice_outside_loop(args, step);
    }
    slice.first_byte = run->turn * run->unit;
    slice.bytes = slice.first_byte >= total              ? 0
                  : total - slice.first_byte < run->unit ? total - slice.first_byte
                                                         : run->unit;
    return slice;
}

/*
 * Returns the place of an item's data, from the first byte of its chunks on. `flag` selects the half of a scratch. For
 * a rank on another node, the address is an offset from the start of that rank's memory, which the proxy uses.
 */
MSCCLPP_DEV mscclpp_dev_plan_span_t mscclpp_dev_plan_span_of(const mscclpp_dev_plan_args_t *args,
                                                             const mscclpp_dev_plan_item_t *item, uint32_t flag)
{
    const uint64_t offset = item->chunk * args->chunk;
    mscclpp_dev_plan_span_t span;

    span.rank = item->base / MSCCLPP_DEV_PLAN_BUFFERS;
    span.packets = item->packets;
    span.address = args->bases[item->base];
    if (item->base % MSCCLPP_DEV_PLAN_BUFFERS == MSCCLPP_DEV_PLAN_SCRATCH) {
        span.address += (flag % 2 == 0 ? args->half : 0) + (item->packets != 0 ? 2 : 1) * offset;
        span.bytes = MSCCLPP_DEV_PLAN_NO_END;
    } else {
        /* Bytes after the end of a rank's block are read as 0 and are not written. */
        span.address += item->block * args->stride + offset;
        span.bytes = offset < args->block_bytes ? args->block_bytes - offset : 0;
    }
    return span;
}

/*
 * Returns the place of the data of item number `item` of the block's program, from byte `first_byte` of its chunks on.
 */
MSCCLPP_DEV mscclpp_dev_plan_span_t mscclpp_dev_plan_span(const mscclpp_dev_plan_args_t *args,
                                                          const mscclpp_dev_plan_run_t *run, uint32_t item,
                                                          uint64_t first_byte)
{
    mscclpp_dev_plan_span_t span = run->program.spans != NULL
                                       ? run->program.spans[item]
                                       : mscclpp_dev_plan_span_of(args, &run->program.items[item], run->flag);

    span.address += span.packets != 0 ? 2 * first_byte : first_byte;
    span.bytes = first_byte < span.bytes ? span.bytes - first_byte : 0;
    return span;
}

/*
 * The next functions handle parts of units, units at other addresses, and packets of 8 bytes. They are out of line,
 * because these are rare.
 */
MSCCLPP_DEV_OUTLINE mscclpp_dev_vec_t mscclpp_dev_plan_load_part(const char *address, uint64_t unit, uint64_t bytes)
{
    return mscclpp_dev_ld_unit(address, unit, bytes);
}

MSCCLPP_DEV_OUTLINE void mscclpp_dev_plan_store_part(char *address, uint64_t unit, uint64_t bytes,
                                                     mscclpp_dev_vec_t value, uint32_t mask)
{
    mscclpp_dev_st_unit(address, unit, bytes, value, mask);
}

MSCCLPP_DEV_OUTLINE bool mscclpp_dev_plan_poll8(const char *slot, mscclpp_dev_vec_t *value, uint32_t flag)
{
    return mscclpp_dev_poll_unit(slot, MSCCLPP_DEV_PACKET_STEP, value, flag, MSCCLPP_DEV_LL8);
}

MSCCLPP_DEV_OUTLINE void mscclpp_dev_plan_put8(char *slot, mscclpp_dev_vec_t value, uint32_t flag)
{
    mscclpp_dev_put_unit(slot, MSCCLPP_DEV_PACKET_STEP, value, flag, MSCCLPP_DEV_LL8);
}

/* Returns true if a unit of a span is whole, and its offset is a multiple of its size. */
MSCCLPP_DEV bool mscclpp_dev_plan_is_plain(const mscclpp_dev_plan_span_t *span, uint64_t unit)
{
    return (unit + 1) * MSCCLPP_DEV_UNIT <= span->bytes && (uintptr_t)span->address % MSCCLPP_DEV_UNIT == 0;
}

/*
 * Loads a unit of a span into *value. Returns false, with *value undefined, if the span holds packets and the packets
 * of the unit have not arrived. Never waits.
 */
MSCCLPP_DEV bool mscclpp_dev_plan_try_load(const mscclpp_dev_plan_args_t *args, const mscclpp_dev_plan_span_t *span,
                                           uint64_t unit, uint32_t flag, mscclpp_dev_vec_t *value)
{
    char *slot = span->address + unit * MSCCLPP_DEV_PACKET_UNIT;
    bool has_arrived;

    if (span->packets == 0) {
        *value = mscclpp_dev_plan_is_plain(span, unit) ? mscclpp_dev_ld_vec(span->address + unit * MSCCLPP_DEV_UNIT)
                                                       : mscclpp_dev_plan_load_part(span->address, unit, span->bytes);
        return true;
    }
    has_arrived = args->width == MSCCLPP_DEV_LL8
                      ? mscclpp_dev_plan_poll8(slot, value, flag)
                      : mscclpp_dev_poll_unit(slot, MSCCLPP_DEV_PACKET_STEP, value, flag, MSCCLPP_DEV_LL16);
    if (has_arrived) {
        MSCCLPP_DEV_SAW_PACKET(slot);
    }
    return has_arrived;
}

/*
 * Waits for a unit of a span that holds packets, and loads the unit. If the wait fails, sets ctx->failed, and *value is
 * undefined.
 */
MSCCLPP_DEV void mscclpp_dev_plan_await_unit(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_plan_args_t *args,
                                             const mscclpp_dev_plan_span_t *span, uint64_t unit, uint32_t flag,
                                             mscclpp_dev_vec_t *value)
{
    mscclpp_dev_wait_t wait = {0, 0};

    while (!mscclpp_dev_plan_try_load(args, span, unit, flag, value)) {
        if (!mscclpp_dev_wait_turn(ctx, &args->common, &wait, args->names[span->rank])) {
            return;
        }
    }
}

/* Stores a unit of a span, as a packet if the span holds packets. */
MSCCLPP_DEV void mscclpp_dev_plan_store(const mscclpp_dev_plan_args_t *args, const mscclpp_dev_plan_span_t *span,
                                        uint64_t unit, uint32_t flag, mscclpp_dev_vec_t value, uint32_t mask)
{
    char *slot = span->address + unit * MSCCLPP_DEV_PACKET_UNIT;

    if (span->packets == 0) {
        if (mscclpp_dev_plan_is_plain(span, unit) && mask == MSCCLPP_DEV_WHOLE_UNIT) {
            mscclpp_dev_st_vec(span->address + unit * MSCCLPP_DEV_UNIT, value);
        } else {
            mscclpp_dev_plan_store_part(span->address, unit, span->bytes, value, mask);
        }
        return;
    }
    MSCCLPP_DEV_SENDS_PACKET(slot);
    if (args->width == MSCCLPP_DEV_LL8) {
        mscclpp_dev_plan_put8(slot, value, flag);
    } else {
        mscclpp_dev_put_unit(slot, MSCCLPP_DEV_PACKET_STEP, value, flag, MSCCLPP_DEV_LL16);
    }
}

/* Units of each operand that a thread loads before it uses the first, so that the latencies of the loads overlap. */
#define MSCCLPP_DEV_PLAN_BATCH 4u

/*
 * Returns true if all items of the step consist of whole, aligned units, none is cut off by the end of its block, and
 * none holds packets.
 */
MSCCLPP_DEV bool mscclpp_dev_plan_is_whole(const mscclpp_dev_plan_args_t *args, const mscclpp_dev_plan_step_t *step,
                                           const mscclpp_dev_plan_run_t *run, mscclpp_dev_plan_slice_t slice)
{
    uintptr_t all_bits = slice.bytes;
    uint32_t i;

    for (i = 0; i < step->sources + step->targets; ++i) {
        const mscclpp_dev_plan_span_t span = mscclpp_dev_plan_span(args, run, step->items + i, slice.first_byte);

        if (span.packets != 0 || span.bytes < slice.bytes) {
            return false;
        }
        all_bits |= (uintptr_t)span.address;
    }
    return all_bits % MSCCLPP_DEV_UNIT == 0;
}

/* Loads a batch of units from `first`, `stride` units apart. */
MSCCLPP_DEV void mscclpp_dev_plan_load_batch(const char *first, uint64_t stride, mscclpp_dev_vec_t *values)
{
    uint32_t i;

    MSCCLPP_DEV_UNROLL
    for (i = 0; i < MSCCLPP_DEV_PLAN_BATCH; ++i) {
        values[i] = mscclpp_dev_ld_vec(first + i * stride * MSCCLPP_DEV_UNIT);
    }
}

/* Returns the address of a unit of an item, counted from byte `first_byte` of its chunks. */
MSCCLPP_DEV char *mscclpp_dev_plan_unit(const mscclpp_dev_plan_args_t *args, const mscclpp_dev_plan_run_t *run,
                                        uint32_t item, uint64_t first_byte, uint64_t unit)
{
    return mscclpp_dev_plan_span(args, run, item, first_byte).address + unit * MSCCLPP_DEV_UNIT;
}

/*
 * Executes a step on whole units, batch by batch, as long as this thread has whole batches. The step's items must be
 * whole (mscclpp_dev_plan_is_whole), so that no unit has to be waited for or is cut off. The thread loads its units of
 * the next operand while it combines those of the current one. Returns this thread's first unit that is left.
 */
MSCCLPP_DEV uint64_t mscclpp_dev_plan_batches(const mscclpp_dev_ctx_t *ctx, const mscclpp_dev_plan_args_t *args,
                                              const mscclpp_dev_plan_step_t *step, const mscclpp_dev_plan_run_t *run,
                                              mscclpp_dev_plan_slice_t slice, bool hot, int dtype, int op)
{
    const uint64_t stride = ctx->nthreads, units = slice.bytes / MSCCLPP_DEV_UNIT;
    mscclpp_dev_vec_t values[MSCCLPP_DEV_PLAN_BATCH], next[MSCCLPP_DEV_PLAN_BATCH];
    mscclpp_dev_acc_t acc[MSCCLPP_DEV_PLAN_BATCH];
    uint64_t unit;
    uint32_t i, j;

    for (unit = ctx->tid; unit + (MSCCLPP_DEV_PLAN_BATCH - 1) * stride < units;
         unit += MSCCLPP_DEV_PLAN_BATCH * stride) {
        mscclpp_dev_plan_load_batch(mscclpp_dev_plan_unit(args, run, step->items, slice.first_byte, unit), stride,
                                    values);
        if (step->sources > 1) {
            mscclpp_dev_plan_load_batch(mscclpp_dev_plan_unit(args, run, step->items + 1, slice.first_byte, unit),
                                        stride, next);
            MSCCLPP_DEV_UNROLL
            for (j = 0; j < MSCCLPP_DEV_PLAN_BATCH; ++j) {
                mscclpp_dev_acc_set(&acc[j], dtype, values[j]);
            }
            for (i = 1; i < step->sources; ++i) {
                MSCCLPP_DEV_UNROLL
                for (j = 0; j < MSCCLPP_DEV_PLAN_BATCH; ++j) {
                    values[j] = next[j];
                }
                /* The next source's units are loaded while this one's are combined. */
                if (i + 1 < step->sources) {
                    mscclpp_dev_plan_load_batch(
                        mscclpp_dev_plan_unit(args, run, step->items + i + 1, slice.first_byte, unit), stride, next);
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
            char *first = mscclpp_dev_plan_unit(args, run, step->items + step->sources + i, slice.first_byte, unit);

            MSCCLPP_DEV_UNROLL
            for (j = 0; j < MSCCLPP_DEV_PLAN_BATCH; ++j) {
                mscclpp_dev_st_vec(first + j * stride * MSCCLPP_DEV_UNIT, values[j]);
            }
        }
    }
    return unit;
}

/*
 * Calls mscclpp_dev_plan_batches for types and operations that are looked up at run time. Out of line, because inlined
 * code would take more registers than there are.
 */
MSCCLPP_DEV_OUTLINE uint64_t mscclpp_dev_plan_batches_any(mscclpp_dev_ctx_t ctx, const mscclpp_dev_plan_args_t *args,
                                                          const mscclpp_dev_plan_step_t *step,
                                                          const mscclpp_dev_plan_run_t *run,
                                                          mscclpp_dev_plan_slice_t slice, int dtype, int op)
{
    return mscclpp_dev_plan_batches(&ctx, args, step, run, slice, false, dtype, op);
}

/*
 * Executes a step by batches (mscclpp_dev_plan_batches) if its items are whole. Returns this thread's first unit that
 * is left: its very first one if they are not. For a hot combination of type and operation (types/hot.h), both are
 * constants in the call, where the shim folds them (MSCCLPP_DEV_FOLDS). Not inlined, so that short messages need not
 * reserve its registers.
 */
MSCCLPP_DEV_OUTLINE uint64_t mscclpp_dev_plan_batches_if_whole(mscclpp_dev_ctx_t ctx,
                                                               const mscclpp_dev_plan_args_t *args,
                                                               const mscclpp_dev_plan_step_t *step,
                                                               const mscclpp_dev_plan_run_t *run,
                                                               mscclpp_dev_plan_slice_t slice, int dtype, int op)
{
    const int hot_dtype = MSCCLPP_DEV_HOT_DTYPE(dtype);

    if (!mscclpp_dev_plan_is_whole(args, step, run, slice)) {
        return ctx.tid;
    }
#define MSCCLPP_DEV_PLAN_MATCH(dtype_, op_)                                                                            \
    if (MSCCLPP_DEV_FOLDS && hot_dtype == (int)(dtype_) && op == (int)(op_)) {                                         \
        return mscclpp_dev_plan_batches(&ctx, args, step, run, slice, true, (int)(dtype_), (int)(op_));                \
    }
    MSCCLPP_DEV_HOT(MSCCLPP_DEV_PLAN_MATCH)
#undef MSCCLPP_DEV_PLAN_MATCH
    return mscclpp_dev_plan_batches_any(ctx, args, step, run, slice, dtype, op);
}

/*
 * Waits for a unit's packets from all sources, for plans in which packets also order other accesses. After this, this
 * thread sees all that the senders of the packets did before they sent them. That is why the caller reads the unit's
 * plain sources only afterwards. If a wait fails, sets ctx->failed.
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
 * Returns a unit of all sources of a step, combined in their order. Takes the sources in batches. First tries all
 * sources of a batch, and then again those whose packets have not arrived; plain sources need no second try. If a wait
 * fails, sets ctx->failed, and the value is arbitrary.
 */
MSCCLPP_DEV mscclpp_dev_vec_t mscclpp_dev_plan_combine(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_plan_args_t *args,
                                                       const mscclpp_dev_plan_step_t *step,
                                                       const mscclpp_dev_plan_run_t *run, uint64_t first_byte,
                                                       uint64_t unit, bool hot, int dtype, int op)
{
    mscclpp_dev_vec_t values[MSCCLPP_DEV_PLAN_BATCH];
    mscclpp_dev_plan_span_t span;
    mscclpp_dev_acc_t acc;
    uint32_t i, j;

    for (i = 0; i < step->sources; i += MSCCLPP_DEV_PLAN_BATCH) {
        const uint32_t count = step->sources - i < MSCCLPP_DEV_PLAN_BATCH ? step->sources - i : MSCCLPP_DEV_PLAN_BATCH;
        mscclpp_dev_wait_t wait = {0, 0};
        uint32_t missing = (1u << count) - 1, late = 0;

        do {
            MSCCLPP_DEV_UNROLL
            for (j = 0; j < MSCCLPP_DEV_PLAN_BATCH; ++j) {
                if ((missing >> j & 1) != 0) {
                    span = mscclpp_dev_plan_span(args, run, step->items + i + j, first_byte);
                    if (mscclpp_dev_plan_try_load(args, &span, unit, run->flag, &values[j])) {
                        missing &= ~(1u << j);
                    } else {
                        late = span.rank;
                    }
                }
            }
        } while (missing != 0 && mscclpp_dev_wait_turn(ctx, &args->common, &wait, args->names[late]));
        MSCCLPP_DEV_UNROLL
        for (j = 0; j < MSCCLPP_DEV_PLAN_BATCH; ++j) {
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
 * `by_batches` is a constant: whether code for batches is compiled in. `hot`: `dtype` and `op` are constants.
 */
MSCCLPP_DEV void mscclpp_dev_plan_data(mscclpp_dev_ctx_t *ctx, const mscclpp_dev_plan_args_t *args,
                                       const mscclpp_dev_plan_step_t *step, const mscclpp_dev_plan_run_t *run,
                                       bool by_batches, bool hot, int dtype, int op)
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
    if (by_batches && units >= (uint64_t)MSCCLPP_DEV_PLAN_BATCH * ctx->nthreads && mask == MSCCLPP_DEV_WHOLE_UNIT) {
        unit = mscclpp_dev_plan_batches_if_whole(*ctx, args, step, run, slice, dtype, op);
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
