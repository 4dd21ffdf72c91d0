/*
 * Where the data of an execution plan's steps are: which bytes of a step a block handles, and where its items lie. Also
 * loads and stores one unit of an item. In the functions below, `first_byte` and `bytes` say which bytes of a step's
 * chunks a block handles (mscclpp_dev_plan_slice).
 *
 * What a launch's arguments say of steps and items is computed once, by all threads of the block together, where the
 * program fits the block's own memory (mscclpp_dev_plan_prepare). In small messages, this arithmetic would take longer
 * than the data.
 */
#ifndef MSCCLPP_DEVICE_KERN_PLAN_SPAN_H
#define MSCCLPP_DEVICE_KERN_PLAN_SPAN_H

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
 * Returns the place of the first packet of a unit, for a span at `address` that holds packets. The second packet is
 * args->packet_gap bytes behind it. If packets lie in planes (MSCCLPP_DEV_PLAN_PLANE), a unit whose packets would be
 * side by side at byte b of a pair of planes has its first packet at b / 2 there. Otherwise the mask is 0, and they are
 * side by side, at any multiple of 16.
 */
MSCCLPP_DEV char *mscclpp_dev_plan_slot(const mscclpp_dev_plan_args_t *args, char *address, uint64_t unit)
{
    char *side_by_side = address + unit * MSCCLPP_DEV_PACKET_UNIT;

    return side_by_side - ((uintptr_t)side_by_side & (2 * args->packet_gap - MSCCLPP_DEV_PACKET_UNIT)) / 2;
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

/* Returns true if a unit of a span is whole, and the span begins at a multiple of MSCCLPP_DEV_UNIT. */
MSCCLPP_DEV bool mscclpp_dev_plan_is_whole_unit(const mscclpp_dev_plan_span_t *span, uint64_t unit)
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
    char *slot;
    bool has_arrived;

    if (span->packets == 0) {
        *value = mscclpp_dev_plan_is_whole_unit(span, unit)
                     ? mscclpp_dev_ld_vec(span->address + unit * MSCCLPP_DEV_UNIT)
                     : mscclpp_dev_plan_load_part(span->address, unit, span->bytes);
        return true;
    }
    slot = mscclpp_dev_plan_slot(args, span->address, unit);
    has_arrived = args->width == MSCCLPP_DEV_LL8
                      ? mscclpp_dev_plan_poll8(slot, value, flag)
                      : mscclpp_dev_poll_unit(slot, args->packet_gap, value, flag, MSCCLPP_DEV_LL16);
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
        if (!mscclpp_dev_wait_turn(ctx, &args->common, &wait, args->late_ranks[span->rank])) {
            return;
        }
    }
}

/*
 * Stores a unit of a span, as a packet if the span holds packets. Of plain data, bytes that `mask` does not select
 * (mscclpp_dev_unit_mask) and bytes after the span's end are not stored.
 */
MSCCLPP_DEV void mscclpp_dev_plan_store(const mscclpp_dev_plan_args_t *args, const mscclpp_dev_plan_span_t *span,
                                        uint64_t unit, uint32_t flag, mscclpp_dev_vec_t value, uint32_t mask)
{
    char *slot;

    if (span->packets == 0) {
        if (mscclpp_dev_plan_is_whole_unit(span, unit) && mask == MSCCLPP_DEV_WHOLE_UNIT) {
            mscclpp_dev_st_vec(span->address + unit * MSCCLPP_DEV_UNIT, value);
        } else {
            mscclpp_dev_plan_store_part(span->address, unit, span->bytes, value, mask);
        }
        return;
    }
    slot = mscclpp_dev_plan_slot(args, span->address, unit);
    MSCCLPP_DEV_SENDS_PACKET(slot);
    if (args->width == MSCCLPP_DEV_LL8) {
        mscclpp_dev_plan_put8(slot, value, flag);
    } else {
        mscclpp_dev_put_unit(slot, args->packet_gap, value, flag, MSCCLPP_DEV_LL16);
    }
}

#endif
