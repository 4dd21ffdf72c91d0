/*
 * Shortens programs run by run. A run is a sequence of data steps and nops (meetings of the block's threads), up to any
 * other step. It has no signal, wait or barrier, and its packets order nothing but themselves. So no other block and no
 * peer may use the data of its plain accesses before the run ends: that would be a race, which a plan without faults
 * does not have. Therefore the run alone decides what may be left out of it.
 */
#include "mca/common/plan/fuse.h"

#include <stdlib.h>
#include <string.h>

/* The most steps of a run. Longer ones stay as they are: the time to shorten one grows with the square of its steps. */
#define RUN_MAX 256

/* The most chunks of input or output for which mscclpp_plan_works_in_place looks; with more, it says no. */
#define CHUNKS_MAX 65536

/* Chunks in a rank's memory: `count` chunks from `first` on. In place, input and output are one buffer here. */
typedef struct {
    uint32_t buffer; /* in the table of buffers, as `base` of mscclpp_dev_plan_item_t */
    uint64_t first;
    uint32_t count;
} range_t;

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

/*
 * Returns the memory that a step uses of an item. The step has `size` chunks. A packet counts as the plain chunks whose
 * memory it occupies. With `in_place`, input and output are one buffer, which is called the output, whichever of the
 * two is larger.
 */
static range_t range_of(const mscclpp_plan_t *plan, uint32_t block_chunks, bool in_place,
                        const mscclpp_dev_plan_item_t *item, uint32_t size)
{
    const uint32_t rank = item->base / MSCCLPP_DEV_PLAN_BUFFERS, type = item->base % MSCCLPP_DEV_PLAN_BUFFERS;
    const uint64_t own_block = (uint64_t)rank * block_chunks;
    range_t range = {.buffer = item->base, .first = (uint64_t)item->block * block_chunks + item->chunk, .count = size};

    if (type == MSCCLPP_DEV_PLAN_SCRATCH) {
        /* Packets take twice the bytes of their data; only the scratch holds packets. */
        range.first = item->packets != 0 ? 2 * (uint64_t)item->chunk : item->chunk;
        range.count = item->packets != 0 ? 2 * size : size;
    } else if (in_place) {
        /* The smaller buffer is the rank's own block of the larger one. */
        range.buffer = MSCCLPP_DEV_PLAN_BUFFERS * rank + MSCCLPP_DEV_PLAN_OUTPUT;
        if ((plan->collective == MSCCLPP_PLAN_ALLGATHER && type == MSCCLPP_DEV_PLAN_INPUT) ||
            (plan->collective == MSCCLPP_PLAN_REDUCESCATTER && type == MSCCLPP_DEV_PLAN_OUTPUT)) {
            range.first += own_block;
        }
    }
    return range;
}

static range_t range_in(const fusion_t *fusion, const mscclpp_dev_plan_step_t *step, uint32_t item)
{
    return range_of(fusion->plan, fusion->block_chunks, fusion->plan->in_place, &fusion->items[item], step->size);
}

/* Returns true if the two ranges have a chunk in common. */
static bool overlap(range_t left, range_t right)
{
    return left.buffer == right.buffer && left.first < right.first + right.count &&
           right.first < left.first + left.count;
}

/* Returns true if the two ranges are the same chunks. */
static bool are_equal(range_t left, range_t right)
{
    return left.buffer == right.buffer && left.first == right.first && left.count == right.count;
}

/*
 * Returns true if two steps divide their data among threads in the same way. If items of two steps that divide alike
 * are also at the same place, each byte is handled by the same thread in both steps.
 */
static bool divide_alike(const mscclpp_dev_plan_step_t *first, const mscclpp_dev_plan_step_t *second)
{
    return first->size == second->size && first->part == second->part && first->parts == second->parts;
}

/* Returns true if the step moves data and is not left out. */
static bool moves_data(const fusion_t *fusion, uint32_t step)
{
    return !fusion->is_gone[step] && fusion->steps[step].code == MSCCLPP_DEV_PLAN_DATA;
}

/* Returns true if the step writes to a part of the range. Dead targets do not count. */
static bool writes_to(const fusion_t *fusion, uint32_t step_number, range_t range)
{
    const mscclpp_dev_plan_step_t *step = &fusion->steps[step_number];

    for (uint32_t i = step->items + step->sources; i < step->items + step->sources + step->targets; ++i) {
        if (!fusion->is_dead[i] && overlap(range_in(fusion, step, i), range)) {
            return true;
        }
    }
    return false;
}

/* Returns true if the step reads a part of the range. */
static bool reads_from(const fusion_t *fusion, uint32_t step_number, range_t range)
{
    const mscclpp_dev_plan_step_t *step = &fusion->steps[step_number];

    for (uint32_t i = step->items; i < step->items + step->sources; ++i) {
        if (overlap(range_in(fusion, step, i), range)) {
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
 * `end` - 1 that read the copy read its source instead. Stops at the first step that writes to the copy. No step may
 * write to the source during a call, so that it does not matter when a thread reads it. An item is replaced only if
 * each thread reads there exactly what it has copied itself, because mscclpp_plan_works_in_place relies on this.
 */
static void read_original(fusion_t *fusion, uint32_t copy, uint32_t target, uint32_t end)
{
    const mscclpp_dev_plan_step_t *first = &fusion->steps[copy];
    const range_t copied = range_in(fusion, first, target);

    for (uint32_t j = copy + 1; j < end; ++j) {
        const mscclpp_dev_plan_step_t *step = &fusion->steps[j];

        if (!moves_data(fusion, j)) {
            continue;
        }
        for (uint32_t i = step->items; i < step->items + step->sources && divide_alike(first, step); ++i) {
            if (fusion->items[i].packets == 0 && are_equal(range_in(fusion, step, i), copied)) {
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
    const range_t range = range_in(fusion, first, target);

    for (uint32_t j = store + 1; j < end; ++j) {
        const mscclpp_dev_plan_step_t *step = &fusion->steps[j];

        if (!moves_data(fusion, j)) {
            continue;
        }
        if (reads_from(fusion, j, range)) {
            return false;
        }
        for (uint32_t i = step->items + step->sources; i < step->items + step->sources + step->targets; ++i) {
            if (!fusion->is_dead[i] && fusion->items[i].packets == 0 && divide_alike(first, step) &&
                are_equal(range_in(fusion, step, i), range)) {
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
 * Drops the copies of a run that nobody needs. The run is the steps `begin` to `end` - 1. First lets steps read the
 * originals of copies, then drops targets that are overwritten before they are read, and steps that have nothing left
 * to do. The order matters: a copy can be dropped only after its readers have been changed. Only this rank's own memory
 * is considered.
 */
static void drop_copies(fusion_t *fusion, uint32_t rank, uint32_t begin, uint32_t end)
{
    for (uint32_t i = begin; i < end; ++i) {
        const mscclpp_dev_plan_step_t *step = &fusion->steps[i];
        const uint32_t targets = step->items + step->sources;

        for (uint32_t j = targets; moves_data(fusion, i) && step->sources == 1 && j < targets + step->targets; ++j) {
            if (fusion->keeps_input && is_own(fusion, step->items, rank) && is_own(fusion, j, rank) &&
                fusion->items[step->items].base % MSCCLPP_DEV_PLAN_BUFFERS == MSCCLPP_DEV_PLAN_INPUT) {
                read_original(fusion, i, j, end);
            }
        }
    }
    for (uint32_t i = begin; i < end; ++i) {
        const mscclpp_dev_plan_step_t *step = &fusion->steps[i];
        const uint32_t targets = step->items + step->sources;
        bool is_useful = !moves_data(fusion, i) || step->targets == 0;

        for (uint32_t j = targets; moves_data(fusion, i) && j < targets + step->targets; ++j) {
            fusion->is_dead[j] = is_own(fusion, j, rank) && is_overwritten(fusion, i, j, end);
            is_useful = is_useful || !fusion->is_dead[j];
        }
        for (uint32_t j = step->items; moves_data(fusion, i) && j < targets; ++j) {
            is_useful = is_useful || fusion->items[j].packets != 0; /* the step also waits for them */
        }
        fusion->is_gone[i] = !is_useful;
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
            const range_t range = range_in(fusion, earlier, i), other_range = range_in(fusion, later, j);

            if (both_read || !overlap(range, other_range)) {
                continue;
            }
            /*
             * Packets and plain data at the same place are divided among threads differently, because their units have
             * different sizes there.
             */
            if (!divide_alike(earlier, later) || !are_equal(range, other_range) ||
                fusion->items[i].packets != fusion->items[j].packets) {
                return false;
            }
        }
    }
    return true;
}

/*
 * Returns true if the meeting at step `nop` can be left out, because no step before it has to meet before a step after
 * it. The steps before it begin at `since`, which follows the last meeting that is kept. The steps after it end at the
 * next meeting or at `end`. Steps behind the next meeting need not be compared, because that meeting separates them
 * until it is examined itself. A meeting with no step after it is kept.
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
 * that the run begins the program. Otherwise the first meeting is kept, because it tells all threads that one of them
 * has finished waiting before the run.
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
 * Returns true if two steps can become one. Two copies of the same data may become one step if neither changes the
 * source. Nothing but steps that are left out may be between the two.
 */
static bool can_join(const fusion_t *fusion, uint32_t before, uint32_t after)
{
    const mscclpp_dev_plan_step_t *earlier = &fusion->steps[before], *later = &fusion->steps[after];
    const mscclpp_dev_plan_item_t *source = &fusion->items[earlier->items],
                                  *later_source = &fusion->items[later->items];

    if (!moves_data(fusion, before) || !moves_data(fusion, after) || !divide_alike(earlier, later)) {
        return false;
    }
    if (earlier->sources != 1 || later->sources != 1 || source->packets != 0 ||
        memcmp(source, later_source, sizeof(*source)) != 0) {
        return false;
    }
    return !writes_to(fusion, before, range_in(fusion, earlier, earlier->items)) &&
           !writes_to(fusion, after, range_in(fusion, earlier, earlier->items));
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
 * Links are not moved. `positions` is memory for the new position of each step, which the ends of loops refer to. For a
 * step that is left out, it is the position of the next step that is kept.
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
 * Drops and joins steps in all runs of a rank's program. The last run of a loop's body is followed by the next turn,
 * which these functions do not look at. So runs in loops stay as they are.
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
     * Works on copies, because write_back overwrites the program. If there is no memory for them, or if the block moves
     * no data, the program is not changed.
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

/*
 * How a rank's steps use one chunk of the buffer that a call in place has. Uses by peers do not count. Steps are
 * numbered through all blocks.
 */
typedef struct {
    uint32_t block, step; /* of the first use, with its number plus 1; 0: no step uses the chunk */
    range_t range;        /* of the first use */
    uint32_t last_read;   /* number of the last step that reads it as input, plus 1 */
    uint32_t first_write; /* number of the first step that writes it as output, plus 1; 0: none */
    bool is_shared;       /* perhaps not always the same thread uses the same bytes */
} chunk_use_t;

typedef struct {
    const mscclpp_plan_t *plan;
    const mscclpp_plan_program_t *program;
    uint32_t rank, block_chunks;
    chunk_use_t *uses; /* by chunk */
    uint64_t count;    /* chunks */
} alias_t;

/*
 * Notes how a step uses one item. Ignores other items than the rank's own input that is read and its own output that is
 * written: only a read of the input can find data that the output has overwritten. A port's source counts as shared,
 * because the proxy reads it at any time.
 */
static void note_use(alias_t *alias, uint32_t block, uint32_t step_number, const mscclpp_dev_plan_item_t *item,
                     bool is_write)
{
    const mscclpp_dev_plan_step_t *step = &alias->program->steps[step_number];
    const range_t range = range_of(alias->plan, alias->block_chunks, true, item, step->size);

    if (item->base !=
        MSCCLPP_DEV_PLAN_BUFFERS * alias->rank + (is_write ? MSCCLPP_DEV_PLAN_OUTPUT : MSCCLPP_DEV_PLAN_INPUT)) {
        return;
    }
    for (uint64_t chunk = range.first; chunk < range.first + range.count && chunk < alias->count; ++chunk) {
        chunk_use_t *use = &alias->uses[chunk];

        if (use->step == 0) {
            use->step = step_number + 1;
            use->block = block;
            use->range = range;
        }
        use->is_shared = use->is_shared || use->block != block || !are_equal(use->range, range) ||
                         !divide_alike(&alias->program->steps[use->step - 1], step) ||
                         step->code != MSCCLPP_DEV_PLAN_DATA;
        if (!is_write) {
            use->last_read = step_number + 1;
        } else if (use->first_write == 0) {
            use->first_write = step_number + 1;
        }
    }
}

/*
 * Notes how a step uses each of its items. In a loop, a thread has other parts in each turn than outside. So all chunks
 * with the numbers of the step's items count as shared there, even if an item is in another buffer. This can only turn
 * a yes into a no, which is safe.
 */
static void note_step(alias_t *alias, uint32_t block, uint32_t step_number, bool in_loop)
{
    const mscclpp_dev_plan_step_t *step = &alias->program->steps[step_number];
    const mscclpp_dev_plan_item_t *items = &alias->program->items[alias->program->starts[block].item + step->items];
    const uint32_t count = step->code == MSCCLPP_DEV_PLAN_DATA       ? step->sources + step->targets
                           : step->code == MSCCLPP_DEV_PLAN_PORT_PUT ? 2 * step->count
                                                                     : 0;

    for (uint32_t i = 0; i < count; ++i) {
        const bool is_write = step->code == MSCCLPP_DEV_PLAN_DATA && i >= step->sources;
        const range_t range = range_of(alias->plan, alias->block_chunks, true, &items[i], step->size);
        const range_t source = range_of(alias->plan, alias->block_chunks, true, &items[0], step->size);

        /* A copy onto itself changes nothing. */
        if (!is_write || step->sources != 1 || items[0].packets != 0 || !are_equal(range, source)) {
            note_use(alias, block, step_number, &items[i], is_write);
        }
        for (uint64_t chunk = range.first; in_loop && chunk < range.first + range.count && chunk < alias->count;
             ++chunk) {
            alias->uses[chunk].is_shared = true;
        }
    }
}

/* Each chunk must be unused on one side, or be read by the same threads before they write it. */
bool mscclpp_plan_works_in_place(const mscclpp_plan_t *plan, uint32_t rank, uint32_t block_chunks,
                                 const mscclpp_plan_program_t *program)
{
    const mscclpp_plan_rank_t *plan_rank = &plan->ranks[rank];
    const uint32_t in = plan_rank->chunks[MSCCLPP_PLAN_INPUT], out = plan_rank->chunks[MSCCLPP_PLAN_OUTPUT];
    alias_t alias = {
        .plan = plan, .program = program, .rank = rank, .block_chunks = block_chunks, .count = in > out ? in : out};
    bool works = alias.count <= CHUNKS_MAX, in_loop = false;

    alias.uses = works ? calloc(alias.count + 1, sizeof(*alias.uses)) : NULL;
    for (uint32_t block = 0; block < program->block_count && alias.uses != NULL; ++block) {
        for (uint32_t i = program->starts[block].step; i < program->starts[block + 1].step; ++i) {
            in_loop = program->steps[i].code == MSCCLPP_DEV_PLAN_LOOP ||
                      (in_loop && program->steps[i].code != MSCCLPP_DEV_PLAN_AGAIN);
            note_step(&alias, block, i, in_loop);
        }
    }
    works = works && alias.uses != NULL;
    for (uint64_t i = 0; i < alias.count && works; ++i) {
        const chunk_use_t *use = &alias.uses[i];

        /* If one step does both, each thread loads its units before it stores, so the two may be equal. */
        works = use->last_read == 0 || use->first_write == 0 || (!use->is_shared && use->last_read <= use->first_write);
    }
    free(alias.uses);
    return works;
}
