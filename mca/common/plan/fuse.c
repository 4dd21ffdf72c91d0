/*
 * Shortens programs run by run. A run is a sequence of data steps and nops (meetings of the block's threads), up to any
 * other step. A run has no signal, wait or barrier, and its packets order nothing but themselves. So no other block and
 * no peer may use the data of its plain accesses before the run ends: that would be a race, which a plan without faults
 * does not have. Therefore the run alone decides which of its steps may be left out.
 */
#include "mca/common/plan/fuse.h"

#include <stdlib.h>
#include <string.h>

#include "mca/common/plan/range.h"

/* Longer runs are not shortened: the time to shorten a run grows with the square of its number of steps. */
#define RUN_MAX 256

/* The block whose program is shortened. */
typedef struct {
    const mscclpp_plan_t *plan;
    uint32_t block_chunks;          /* chunks in a rank's block of input and output */
    bool keeps_input;               /* nothing writes to the input while the plan runs */
    mscclpp_dev_plan_step_t *steps; /* the block's; changed in place */
    mscclpp_dev_plan_item_t *items; /* a copy of the block's */
    uint32_t step_count;
    bool *is_dead;   /* by item: a target that is not stored */
    bool *is_gone;   /* by step: it is left out */
    bool *is_joined; /* by step: its targets go to the step before it that is not gone */
} fusion_t;

/* Returns the memory that a step uses of item number `item`. */
static mscclpp_plan_range_t find_step_range(const fusion_t *fusion, const mscclpp_dev_plan_step_t *step, uint32_t item)
{
    return mscclpp_plan_find_range(fusion->plan, fusion->block_chunks, fusion->plan->in_place, &fusion->items[item],
                                   step->size);
}

/* Returns true if the two ranges have a chunk in common. */
static bool do_overlap(mscclpp_plan_range_t left, mscclpp_plan_range_t right)
{
    return left.buffer == right.buffer && left.first < right.first + right.count &&
           right.first < left.first + left.count;
}

/* Returns true if the step moves data and is not left out. */
static bool moves_data(const fusion_t *fusion, uint32_t step)
{
    return !fusion->is_gone[step] && fusion->steps[step].code == MSCCLPP_DEV_PLAN_DATA;
}

/* Returns true if the step writes to a part of the range. Dead targets do not count. */
static bool writes_to(const fusion_t *fusion, uint32_t step_number, mscclpp_plan_range_t range)
{
    const mscclpp_dev_plan_step_t *step = &fusion->steps[step_number];

    for (uint32_t i = step->items + step->sources; i < step->items + step->sources + step->targets; ++i) {
        if (!fusion->is_dead[i] && do_overlap(find_step_range(fusion, step, i), range)) {
            return true;
        }
    }
    return false;
}

/* Returns true if the step reads a part of the range. */
static bool reads_from(const fusion_t *fusion, uint32_t step_number, mscclpp_plan_range_t range)
{
    const mscclpp_dev_plan_step_t *step = &fusion->steps[step_number];

    for (uint32_t i = step->items; i < step->items + step->sources; ++i) {
        if (do_overlap(find_step_range(fusion, step, i), range)) {
            return true;
        }
    }
    return false;
}

/* Returns true if an item is plain data in memory of this rank. */
static bool is_own(const fusion_t *fusion, uint32_t item, uint32_t rank)
{
    return fusion->items[item].base / MSCCLPP_DEV_PLAN_BUFFERS == rank && fusion->items[item].packets == 0;
}

/*
 * Lets steps read the source of a copy in place of the copy. Step `copy` copies to item `target`. Later steps up to
 * `end` - 1 that read the copy then read its source, up to and including the first step that writes to the copy. No
 * step may write to the source during a call, so that it does not matter when a thread reads it. An item is replaced
 * only if each thread reads there exactly what it has copied itself, because mscclpp_plan_works_in_place relies on
 * this.
 */
static void read_original(fusion_t *fusion, uint32_t copy, uint32_t target, uint32_t end)
{
    const mscclpp_dev_plan_step_t *first = &fusion->steps[copy];
    const mscclpp_plan_range_t copied = find_step_range(fusion, first, target);

    for (uint32_t j = copy + 1; j < end; ++j) {
        const mscclpp_dev_plan_step_t *step = &fusion->steps[j];

        if (!moves_data(fusion, j)) {
            continue;
        }
        for (uint32_t i = step->items; i < step->items + step->sources && mscclpp_plan_divide_alike(first, step); ++i) {
            if (fusion->items[i].packets == 0 &&
                mscclpp_plan_ranges_are_equal(find_step_range(fusion, step, i), copied)) {
                fusion->items[i] = fusion->items[first->items];
            }
        }
        if (writes_to(fusion, j, copied)) {
            return;
        }
    }
}

/*
 * Returns true if nobody reads what a step writes to one of its targets. Item `target` of step `store` is overwritten
 * in vain if a later step of the run overwrites all of it before any step reads a part of it or overwrites only a part.
 * The run ends before step `end`. Several blocks may share the chunks of a step, so both steps must write the same part
 * of them.
 */
static bool is_overwritten(const fusion_t *fusion, uint32_t store, uint32_t target, uint32_t end)
{
    const mscclpp_dev_plan_step_t *first = &fusion->steps[store];
    const mscclpp_plan_range_t range = find_step_range(fusion, first, target);

    for (uint32_t j = store + 1; j < end; ++j) {
        const mscclpp_dev_plan_step_t *step = &fusion->steps[j];

        if (!moves_data(fusion, j)) {
            continue;
        }
        if (reads_from(fusion, j, range)) {
            return false;
        }
        for (uint32_t i = step->items + step->sources; i < step->items + step->sources + step->targets; ++i) {
            if (!fusion->is_dead[i] && fusion->items[i].packets == 0 && mscclpp_plan_divide_alike(first, step) &&
                mscclpp_plan_ranges_are_equal(find_step_range(fusion, step, i), range)) {
                return true;
            }
        }
        if (writes_to(fusion, j, range)) {
            return false;
        }
    }
    return false;
}

/*
 * Lets later steps up to `end` - 1 read the source of a copy in place of the copies (read_original), if step `copy` is
 * a copy of plain data from this rank's input, and nothing writes to the input.
 */
static void read_input(fusion_t *fusion, uint32_t rank, uint32_t copy, uint32_t end)
{
    const mscclpp_dev_plan_step_t *step = &fusion->steps[copy];
    const uint32_t targets = step->items + step->sources;

    if (!moves_data(fusion, copy) || step->sources != 1 || !fusion->keeps_input || !is_own(fusion, step->items, rank) ||
        fusion->items[step->items].base % MSCCLPP_DEV_PLAN_BUFFERS != MSCCLPP_DEV_PLAN_INPUT) {
        return;
    }
    for (uint32_t i = targets; i < targets + step->targets; ++i) {
        if (is_own(fusion, i, rank)) {
            read_original(fusion, copy, i, end);
        }
    }
}

/*
 * Drops the targets of a step that are overwritten before they are read, and the step itself if it has nothing left to
 * do. A step with packets among its sources is kept, because it also waits for them. The run ends before step `end`.
 */
static void drop_targets(fusion_t *fusion, uint32_t rank, uint32_t step_number, uint32_t end)
{
    const mscclpp_dev_plan_step_t *step = &fusion->steps[step_number];
    const uint32_t targets = step->items + step->sources;
    bool is_useful = step->targets == 0;

    if (!moves_data(fusion, step_number)) {
        return;
    }
    for (uint32_t i = targets; i < targets + step->targets; ++i) {
        fusion->is_dead[i] = is_own(fusion, i, rank) && is_overwritten(fusion, step_number, i, end);
        is_useful = is_useful || !fusion->is_dead[i];
    }
    for (uint32_t i = step->items; i < targets; ++i) {
        is_useful = is_useful || fusion->items[i].packets != 0;
    }
    fusion->is_gone[step_number] = !is_useful;
}

/*
 * Drops the copies of a run that nobody needs. The run is the steps `begin` to `end` - 1. The order matters: a copy can
 * be dropped only after its readers have been changed. Only this rank's own memory is considered.
 */
static void drop_copies(fusion_t *fusion, uint32_t rank, uint32_t begin, uint32_t end)
{
    for (uint32_t i = begin; i < end; ++i) {
        read_input(fusion, rank, i, end);
    }
    for (uint32_t i = begin; i < end; ++i) {
        drop_targets(fusion, rank, i, end);
    }
}

/*
 * Returns true if threads need not meet between two steps. A thread may begin the second step before others have
 * finished the first if both steps only read, if they use different memory, or if each byte is handled by the same
 * thread in both steps.
 */
static bool can_do_without_meeting(const fusion_t *fusion, uint32_t before, uint32_t after)
{
    const mscclpp_dev_plan_step_t *earlier = &fusion->steps[before], *later = &fusion->steps[after];

    for (uint32_t i = earlier->items; i < earlier->items + earlier->sources + earlier->targets; ++i) {
        for (uint32_t j = later->items; j < later->items + later->sources + later->targets; ++j) {
            const bool both_read = i < earlier->items + earlier->sources && j < later->items + later->sources;
            const mscclpp_plan_range_t range = find_step_range(fusion, earlier, i),
                                       other_range = find_step_range(fusion, later, j);

            if (both_read || !do_overlap(range, other_range)) {
                continue;
            }
            /*
             * Packets and plain data at the same place are divided among threads differently, because their units have
             * different sizes there.
             */
            if (!mscclpp_plan_divide_alike(earlier, later) || !mscclpp_plan_ranges_are_equal(range, other_range) ||
                fusion->items[i].packets != fusion->items[j].packets) {
                return false;
            }
        }
    }
    return true;
}

/*
 * Returns true if the meeting at step `nop` can be left out: the threads need not meet between any step before and any
 * step after it. The steps before the meeting begin at `since`, which follows the last meeting that is kept. The steps
 * after the meeting end at the next meeting or at `end`. Steps behind the next meeting need not be compared, because
 * that meeting separates them until it is examined itself. A meeting with no step after it is kept.
 */
static bool is_needless(const fusion_t *fusion, uint32_t since, uint32_t nop, uint32_t end)
{
    bool has_later_step = false;

    for (uint32_t after = nop + 1; after < end && fusion->steps[after].code != MSCCLPP_DEV_PLAN_NOP; ++after) {
        for (uint32_t before = since; before < nop; ++before) {
            if (moves_data(fusion, before) && moves_data(fusion, after) &&
                !can_do_without_meeting(fusion, before, after)) {
                return false;
            }
        }
        has_later_step = true;
    }
    return has_later_step;
}

/*
 * Drops the meetings of a run that are not needed. `is_clean` says that the threads have met just before the run, or
 * that the run begins the program. Otherwise the first meeting is kept, because all threads learn by it that a wait
 * before the run, in which only some threads wait, has ended.
 *
 * `is_followed` says that the step after the run relies on the run's last meeting. Only the end of the program and a
 * barrier, which begins with a meeting, do not. A signal, for instance, is sent by a single thread, but announces what
 * all threads stored before that meeting.
 */
static void drop_meetings(fusion_t *fusion, uint32_t begin, uint32_t end, bool is_clean, bool is_followed)
{
    uint32_t since = begin;

    for (uint32_t i = begin; i < end; ++i) {
        uint32_t next = i + 1;

        if (fusion->steps[i].code != MSCCLPP_DEV_PLAN_NOP) {
            continue;
        }
        while (next < end && fusion->steps[next].code != MSCCLPP_DEV_PLAN_NOP) {
            ++next;
        }
        /* `next` is `end` for the run's last meeting, on which the step after the run may rely. */
        if (is_clean && (next < end || !is_followed) && is_needless(fusion, since, i, end)) {
            fusion->is_gone[i] = true;
        } else {
            is_clean = true;
            since = i + 1;
        }
    }
}

/*
 * Returns true if two steps can become one: both copy the same data, and neither changes the source. Only steps that
 * are left out may be between the two steps.
 */
static bool can_join(const fusion_t *fusion, uint32_t before, uint32_t after)
{
    const mscclpp_dev_plan_step_t *earlier = &fusion->steps[before], *later = &fusion->steps[after];
    const mscclpp_dev_plan_item_t *source = &fusion->items[earlier->items],
                                  *later_source = &fusion->items[later->items];

    if (!moves_data(fusion, before) || !moves_data(fusion, after) || !mscclpp_plan_divide_alike(earlier, later)) {
        return false;
    }
    if (earlier->sources != 1 || later->sources != 1 || source->packets != 0 ||
        memcmp(source, later_source, sizeof(*source)) != 0) {
        return false;
    }
    return !writes_to(fusion, before, find_step_range(fusion, earlier, earlier->items)) &&
           !writes_to(fusion, after, find_step_range(fusion, earlier, earlier->items));
}

/* Joins the copies of a run that can become one step. A nop that is kept ends a group: can_join refuses it. */
static void join_copies(fusion_t *fusion, uint32_t begin, uint32_t end)
{
    uint32_t head = end; /* the step that others may join; `end`: none */

    for (uint32_t i = begin; i < end; ++i) {
        if (fusion->is_gone[i]) {
            continue;
        }
        fusion->is_joined[i] = head != end && can_join(fusion, head, i);
        head = fusion->is_joined[i] ? head : i;
    }
}

/* Writes the targets of a step that are packets, or those that are plain data, to `items`. Returns their number. */
static uint32_t write_targets(const fusion_t *fusion, uint32_t step_number, bool as_packets,
                              mscclpp_dev_plan_item_t *items)
{
    const mscclpp_dev_plan_step_t *step = &fusion->steps[step_number];
    uint32_t count = 0;

    for (uint32_t i = step->items + step->sources; i < step->items + step->sources + step->targets; ++i) {
        if (!fusion->is_dead[i] && (fusion->items[i].packets != 0) == as_packets) {
            items[count++] = fusion->items[i];
        }
    }
    return count;
}

/*
 * Writes the items that are left of a step, and of the steps that joined it, to `items`, and sets the step's number of
 * targets. The targets with packets come last, as the kernel expects (mscclpp_dev_plan_data). A step that joined
 * follows directly, or after steps that are gone. Returns the number of items.
 */
static uint32_t write_items(const fusion_t *fusion, uint32_t step_number, mscclpp_dev_plan_step_t *step,
                            mscclpp_dev_plan_item_t *items)
{
    uint32_t count = step->sources;

    memcpy(items, &fusion->items[step->items], count * sizeof(*items));
    for (int packets = 0; packets < 2; ++packets) {
        count += write_targets(fusion, step_number, packets != 0, items + count);
        for (uint32_t i = step_number + 1; i < fusion->step_count && (fusion->is_gone[i] || fusion->is_joined[i]);
             ++i) {
            count += fusion->is_joined[i] ? write_targets(fusion, i, packets != 0, items + count) : 0;
        }
    }
    step->targets = count - step->sources;
    return count;
}

/*
 * Writes the shortened program over the block's old program, which is never shorter, and sets the program's new ends.
 * Links are not moved. `positions` is memory for the new position of each step, for the ends of loops. The position of
 * a step that is left out is that of the next step that is kept.
 */
static void write_back(const fusion_t *fusion, mscclpp_plan_program_t *program, mscclpp_dev_plan_start_t start,
                       uint32_t *positions)
{
    mscclpp_dev_plan_item_t *items = program->items + start.item;
    uint32_t step_count = 0, item_count = 0;

    for (uint32_t i = 0; i < fusion->step_count; ++i) {
        mscclpp_dev_plan_step_t step = fusion->steps[i];

        positions[i] = step_count;
        if (fusion->is_gone[i] || fusion->is_joined[i]) {
            continue;
        }
        if (step.code == MSCCLPP_DEV_PLAN_DATA) {
            const uint32_t count = write_items(fusion, i, &step, items + item_count);

            step.items = item_count;
            item_count += count;
        } else if (step.code == MSCCLPP_DEV_PLAN_PORT_PUT) {
            memcpy(items + item_count, &fusion->items[step.items], 2 * step.count * sizeof(*items));
            step.items = item_count;
            item_count += 2 * step.count;
        } else if (step.code == MSCCLPP_DEV_PLAN_AGAIN) {
            step.items = positions[step.items];
        }
        program->steps[start.step + step_count++] = step;
    }
    program->step_count = start.step + step_count;
    program->item_count = start.item + item_count;
}

/*
 * Drops and joins steps in all runs of a rank's program, except in loops: the next turn follows the last run of a
 * loop's body, and these functions do not examine it.
 */
static void fuse_runs(fusion_t *fusion, uint32_t rank)
{
    bool is_clean = true; /* the next run begins the program or follows a barrier, so that the threads have just met */
    bool in_loop = false;

    for (uint32_t begin = 0, end; begin < fusion->step_count; begin = end) {
        const uint32_t code = fusion->steps[begin].code;

        end = begin;
        while (end < fusion->step_count &&
               (fusion->steps[end].code == MSCCLPP_DEV_PLAN_DATA || fusion->steps[end].code == MSCCLPP_DEV_PLAN_NOP)) {
            ++end;
        }
        if (end == begin) {
            in_loop = code == MSCCLPP_DEV_PLAN_LOOP || (in_loop && code != MSCCLPP_DEV_PLAN_AGAIN);
            is_clean = code == MSCCLPP_DEV_PLAN_BARRIER;
            end = begin + 1;
        } else if (!in_loop && end - begin <= RUN_MAX) {
            const uint32_t next = fusion->steps[end].code; /* every program ends with END */

            drop_copies(fusion, rank, begin, end);
            drop_meetings(fusion, begin, end, is_clean,
                          next != MSCCLPP_DEV_PLAN_END && next != MSCCLPP_DEV_PLAN_BARRIER);
            join_copies(fusion, begin, end);
        }
    }
}

/* Allocates zeroed entries, one more than `count`, so that NULL means only a lack of memory. The caller frees them. */
static void *allocate_zeroed(uint32_t count, size_t size)
{
    return calloc((size_t)count + 1, size);
}

void mscclpp_plan_fuse(const mscclpp_plan_t *plan, uint32_t rank, uint32_t block_chunks, bool keeps_input,
                       mscclpp_plan_program_t *program, mscclpp_dev_plan_start_t start)
{
    const uint32_t step_count = program->step_count - start.step, item_count = program->item_count - start.item;
    fusion_t fusion = {.plan = plan,
                       .block_chunks = block_chunks,
                       .keeps_input = keeps_input,
                       .steps = allocate_zeroed(step_count, sizeof(*fusion.steps)),
                       .items = allocate_zeroed(item_count, sizeof(*fusion.items)),
                       .step_count = step_count,
                       .is_dead = allocate_zeroed(item_count, sizeof(*fusion.is_dead)),
                       .is_gone = allocate_zeroed(step_count, sizeof(*fusion.is_gone)),
                       .is_joined = allocate_zeroed(step_count, sizeof(*fusion.is_joined))};
    uint32_t *positions = allocate_zeroed(step_count, sizeof(*positions));

    /*
     * Works on copies, because write_back overwrites the program. Without memory, or without data to move, changes
     * nothing.
     */
    if (fusion.steps != NULL && fusion.items != NULL && fusion.is_dead != NULL && fusion.is_gone != NULL &&
        fusion.is_joined != NULL && positions != NULL && item_count > 0) {
        memcpy(fusion.steps, program->steps + start.step, step_count * sizeof(*fusion.steps));
        memcpy(fusion.items, program->items + start.item, item_count * sizeof(*fusion.items));
        fuse_runs(&fusion, rank);
        write_back(&fusion, program, start, positions);
    }
    free(fusion.steps);
    free(fusion.items);
    free(fusion.is_dead);
    free(fusion.is_gone);
    free(fusion.is_joined);
    free(positions);
}
