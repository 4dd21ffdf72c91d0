/* Checks operations that belong together: signals and waits, semaphores, barriers, groups, and reused buffers. */
#include <stdlib.h>
#include <string.h>

#include "mca/common/plan/check.h"
#include "mca/common/plan/visit.h"
#include "mca/common/plan/words.h"

/*
 * One use of an object that several operations share: a channel, semaphore, barrier or group. The events of all
 * operations are sorted by key, and the events of one key are checked together.
 */
typedef struct {
    uint64_t key[4]; /* OF_..., and what identifies the channel, semaphore, barrier or group */
    /*
     * num_chunks / unit of the pipeline around it, as a reduced fraction: pipelines of equal fractions have equally
     * many turns for every message. 0 / 0: it is in no pipeline.
     */
    uint64_t turn_chunks, turn_unit;
    int64_t change; /* +1: it signals, releases or arrives; -1: it waits or acquires */
    mscclpp_plan_place_t place;
    const mscclpp_plan_op_t *op;
} event_t;

/* The events of a plan. */
typedef struct {
    const mscclpp_plan_t *plan;
    mscclpp_plan_report_t *report;
    event_t *events;
    size_t count, capacity; /* events; entries allocated */
} list_t;

/* The kind of object that an event uses. It is the first number of the key of the event. */
enum {
    OF_CHANNEL,   /* then the receiving rank, the channel type, the channel of that rank */
    OF_SEMAPHORE, /* then the rank, the semaphore */
    OF_BARRIER,   /* then the rank, the barrier */
    OF_GROUP      /* then the rank, hash_group, the number of parts */
};

/*
 * Sets the fraction num_chunks / unit of a pipeline, reduced by its greatest common divisor. The number of turns is
 * proportional to the fraction, so equal numbers of turns have equal fractions.
 */
static void reduce_turns(const mscclpp_plan_op_t *pipeline, uint64_t *chunks_p, uint64_t *unit_p)
{
    uint64_t divisor = pipeline->num_chunks, rest = pipeline->unit, remainder;

    for (; rest != 0; divisor = rest, rest = remainder) {
        remainder = divisor % rest;
    }
    *chunks_p = pipeline->num_chunks / divisor;
    *unit_p = pipeline->unit / divisor;
}

/*
 * Appends an event to the list. The key is `subject` (OF_...) with up to three numbers. `pipeline` is the pipeline
 * around the operation, or NULL. mscclpp_plan_check_ops has checked that the pipeline's unit and number of chunks are
 * not 0. If there is no memory, the event is lost, and report->no_memory is set so that nothing is checked with the
 * incomplete list.
 */
static void add_event(list_t *list, mscclpp_plan_place_t place, const mscclpp_plan_op_t *op,
                      const mscclpp_plan_op_t *pipeline, int64_t change, uint64_t subject, uint64_t key1, uint64_t key2,
                      uint64_t key3)
{
    event_t *events;
    uint64_t turn_chunks = 0, turn_unit = 0;

    if (list->count == list->capacity) {
        list->capacity = list->capacity > 0 ? 2 * list->capacity : 1024;
        events = realloc(list->events, list->capacity * sizeof(*events));
        if (events == NULL) {
            list->report->no_memory = true;
            list->capacity = list->count;
            return;
        }
        list->events = events;
    }
    if (pipeline != NULL) {
        reduce_turns(pipeline, &turn_chunks, &turn_unit);
    }
    list->events[list->count++] = (event_t){.key = {subject, key1, key2, key3},
                                            .turn_chunks = turn_chunks,
                                            .turn_unit = turn_unit,
                                            .change = change,
                                            .place = place,
                                            .op = op};
}

/* Returns `hash` with a value added. */
static uint64_t add_to_hash(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ (hash >> 29);
}

/* Returns `hash` with a list of items added: for each item its kind, its owner and its chunks. */
static uint64_t add_items_to_hash(uint64_t hash, const mscclpp_plan_item_t *items, uint32_t count)
{
    hash = add_to_hash(hash, count);
    for (uint32_t i = 0; i < count; ++i) {
        hash = add_to_hash(hash, (uint64_t)items[i].where << 8 | items[i].type);
        hash = add_to_hash(hash, items[i].where == MSCCLPP_PLAN_MULTICAST ? items[i].group : items[i].rank);
        hash = add_to_hash(hash, (uint64_t)items[i].index << 32 | items[i].size);
    }
    return hash;
}

/*
 * Returns a hash of what an operation does, which identifies its group. The blocks of a group share an operation, and
 * each block does one part. Files do not name groups, so equal operations count as parts of one operation.
 */
static uint64_t hash_group(const mscclpp_plan_op_t *op)
{
    uint64_t hash = add_to_hash(op->kind, (uint64_t)op->channel_type << 32 | op->tbg_size);

    return add_items_to_hash(add_items_to_hash(hash, op->src, op->src_count), op->dst, op->dst_count);
}

/*
 * Lists the events of one operation (mscclpp_plan_visit_fn_t). An operation that signals may also be a part of a group,
 * so groups are handled after the switch. An operation in a pipeline is never a part of a group (check_ops.c), so that
 * event has no pipeline.
 */
static void collect_events(void *context, mscclpp_plan_place_t place, mscclpp_plan_op_t *op,
                           const mscclpp_plan_op_t *pipeline)
{
    list_t *list = context;
    const mscclpp_plan_rank_t *rank = &list->plan->ranks[place.rank];
    uint64_t rank_number = (uint64_t)place.rank;

    switch (op->kind) {
    case MSCCLPP_PLAN_OP_SIGNAL:
    case MSCCLPP_PLAN_OP_RLXSIGNAL:
    case MSCCLPP_PLAN_OP_PWS:
    case MSCCLPP_PLAN_OP_PWSF:
        /*
         * A signal counts for the channel of the receiving rank. A channel without a pair has no receiving rank, so its
         * signals are not counted.
         */
        for (uint32_t i = 0; i < op->channel_count; ++i) {
            const mscclpp_plan_channel_t *channel = &rank->channels[op->channel_type][op->channels[i]];

            if (channel->pair >= 0) {
                add_event(list, place, op, pipeline, 1, OF_CHANNEL, channel->peer, op->channel_type,
                          (uint64_t)channel->pair);
            }
        }
        break;
    case MSCCLPP_PLAN_OP_WAIT:
    case MSCCLPP_PLAN_OP_RLXWAIT:
        for (uint32_t i = 0; i < op->channel_count; ++i) {
            add_event(list, place, op, pipeline, -1, OF_CHANNEL, rank_number, op->channel_type, op->channels[i]);
        }
        break;
    case MSCCLPP_PLAN_OP_RELEASE:
    case MSCCLPP_PLAN_OP_ACQUIRE:
        for (uint32_t i = 0; i < op->semaphore_count; ++i) {
            add_event(list, place, op, pipeline, op->kind == MSCCLPP_PLAN_OP_RELEASE ? 1 : -1, OF_SEMAPHORE,
                      rank_number, op->semaphores[i], 0);
        }
        break;
    case MSCCLPP_PLAN_OP_BARRIER:
        add_event(list, place, op, pipeline, 1, OF_BARRIER, rank_number, op->barrier, 0);
        break;
    default:
        break;
    }
    if (op->tbg_size > 0 && mscclpp_plan_op_shape(op) != NULL) {
        add_event(list, place, op, NULL, 1, OF_GROUP, rank_number, hash_group(op), op->tbg_size);
    }
}

/*
 * Compares two events (for qsort) by key, then by the turns of the pipelines, then by place. So the events of one key
 * are adjacent, and among them the events of one number of turns.
 */
static int compare_events(const void *left, const void *right)
{
    const event_t *left_event = left, *right_event = right;

    for (int i = 0; i < 4; ++i) {
        if (left_event->key[i] != right_event->key[i]) {
            return left_event->key[i] < right_event->key[i] ? -1 : 1;
        }
    }
    if (left_event->turn_chunks != right_event->turn_chunks) {
        return left_event->turn_chunks < right_event->turn_chunks ? -1 : 1;
    }
    if (left_event->turn_unit != right_event->turn_unit) {
        return left_event->turn_unit < right_event->turn_unit ? -1 : 1;
    }
    if (left_event->place.block != right_event->place.block) {
        return left_event->place.block < right_event->place.block ? -1 : 1;
    }
    if (left_event->place.op != right_event->place.op) {
        return left_event->place.op < right_event->place.op ? -1 : 1;
    }
    return left_event->place.inner - right_event->place.inner;
}

/* Returns true if the pipelines around two events take equally many turns. */
static bool have_equal_turns(const event_t *first, const event_t *second)
{
    return first->turn_chunks == second->turn_chunks && first->turn_unit == second->turn_unit;
}

/* Returns true if two events use the same channel, semaphore, barrier or group. */
static bool is_same_key(const event_t *first, const event_t *second)
{
    return memcmp(first->key, second->key, sizeof(first->key)) == 0;
}

/*
 * Returns what follows from an imbalance, for a message. `total` is the number of signals minus the number of waits, or
 * of releases minus acquires.
 */
static const char *explain_imbalance(bool is_channel, int64_t total)
{
    if (total == 0) {
        return ", but in pipelines of other numbers of turns";
    }
    if (!is_channel) {
        return " in one launch, so its value drifts";
    }
    return total > 0 ? ": what is left over ends a wait of the next launch too early" : ": the last wait has no end";
}

/*
 * Reports that the events of one key do not balance. `first` is the first event, and `taker` the last wait or acquire
 * or, if there is none, `first`. Too many waits are a deadlock, and so are equal numbers in pipelines of different
 * turns. Too few waits make the plan invalid.
 */
static void report_imbalance(const list_t *list, const event_t *first, const event_t *taker, int64_t given,
                             int64_t taken)
{
    const bool is_channel = first->key[0] == OF_CHANNEL;
    const int64_t total = given - taken;
    const mscclpp_plan_kind_t kind = total > 0 ? MSCCLPP_PLAN_INVALID : MSCCLPP_PLAN_DEADLOCK;
    const char *explanation = explain_imbalance(is_channel, total);
    char place[80];

    mscclpp_plan_place_text(first->place, place, sizeof(place));
    if (is_channel) {
        mscclpp_plan_add_finding(list->report, kind, "balance", taker->place,
                                 "rank %llu gets %lld signals over its %s channel %llu and waits for %lld%s (see %s)",
                                 (unsigned long long)first->key[1], (long long)given,
                                 mscclpp_plan_channel_name((mscclpp_plan_channel_type_t)first->key[2]),
                                 (unsigned long long)first->key[3], (long long)taken, explanation, place);
    } else {
        mscclpp_plan_add_finding(list->report, kind, "balance", taker->place,
                                 "semaphore %llu is released %lld times and acquired %lld times%s (see %s)",
                                 (unsigned long long)first->key[2], (long long)given, (long long)taken, explanation,
                                 place);
    }
}

/*
 * Checks that signals and waits of one channel, or releases and acquires of one semaphore, balance. `first` points to
 * its `count` events, sorted by the turns of their pipelines. There must be as many signals as waits (or releases as
 * acquires) outside of pipelines, and also in the pipelines of each number of turns. Reports at most one fault.
 */
static void check_balance(const list_t *list, const event_t *first, size_t count)
{
    int64_t turns_total = 0; /* of `change`, over the events with the current number of turns */
    int64_t given = 0, taken = 0;
    const event_t *taker = first;
    bool is_balanced = true;

    for (size_t i = 0; i < count; ++i) {
        if (i > 0 && !have_equal_turns(&first[i], &first[i - 1])) {
            turns_total = 0;
        }
        turns_total += first[i].change;
        given += first[i].change > 0;
        taken += first[i].change < 0;
        taker = first[i].change < 0 ? &first[i] : taker;
        if (i + 1 == count || !have_equal_turns(&first[i], &first[i + 1])) {
            is_balanced = is_balanced && turns_total == 0;
        }
    }
    if (!is_balanced) {
        report_imbalance(list, first, taker, given, taken);
    }
}

/*
 * Returns how many of the events from `index` on are in the block of event `index`. Returns 0 if an earlier event is in
 * that block: then the block's events have been counted already. The events of one block need not be adjacent, because
 * events are sorted by turns first and then by block.
 */
static int64_t count_in_new_block(const event_t *first, size_t count, size_t index)
{
    int64_t times = 0;

    for (size_t i = 0; i < index; ++i) {
        if (first[i].place.block == first[index].place.block) {
            return 0;
        }
    }
    for (size_t i = index; i < count; ++i) {
        times += first[i].place.block == first[index].place.block;
    }
    return times;
}

/*
 * Checks the operations of one barrier. All operations must state the same number of blocks, exactly this number of
 * blocks must have the barrier, and each block must reach it equally often. If the barrier is in pipelines of different
 * numbers of turns, only the simulation checks how often blocks reach it. Reports at most one fault.
 */
static void check_barrier(const list_t *list, const event_t *first, size_t count)
{
    uint32_t blocks = 0;
    int64_t max_times = 0, min_times = INT64_MAX;
    bool has_equal_turns = true;

    for (size_t i = 0; i < count; ++i) {
        if (first[i].op->barrier_blocks != first->op->barrier_blocks) {
            mscclpp_plan_add_finding(list->report, MSCCLPP_PLAN_INVALID, "barrier", first[i].place,
                                     "barrier %u is for %u blocks here, but for %u in block %d", first->op->barrier,
                                     first[i].op->barrier_blocks, first->op->barrier_blocks, first->place.block);
            return;
        }
        has_equal_turns = has_equal_turns && have_equal_turns(&first[i], first);
    }
    for (size_t i = 0; i < count; ++i) {
        const int64_t block_times = count_in_new_block(first, count, i);

        if (block_times > 0) {
            ++blocks;
            max_times = block_times > max_times ? block_times : max_times;
            min_times = block_times < min_times ? block_times : min_times;
        }
    }
    if (blocks != first->op->barrier_blocks) {
        mscclpp_plan_add_finding(list->report, MSCCLPP_PLAN_INVALID, "barrier", first->place,
                                 "barrier %u is for %u blocks, but %u have it", first->op->barrier,
                                 first->op->barrier_blocks, blocks);
    } else if (max_times != min_times && has_equal_turns) {
        mscclpp_plan_add_finding(list->report, MSCCLPP_PLAN_DEADLOCK, "barrier", first->place,
                                 "one block comes to barrier %u %lld times, but another one %lld times",
                                 first->op->barrier, (long long)max_times, (long long)min_times);
    }
}

/*
 * Checks the parts of one operation that blocks share. All parts of the operation must be done, and equally often. All
 * events have the same number of parts, because the key contains this number. Each part is a valid index, because the
 * reader has checked that it is below that number. Reports at most one fault. If memory runs out, sets
 * report->no_memory.
 */
static void check_group(const list_t *list, const event_t *first, size_t count)
{
    uint32_t size = first->op->tbg_size;
    uint32_t *part_times = calloc(size, sizeof(*part_times));

    if (part_times == NULL) {
        list->report->no_memory = true;
        return;
    }
    for (size_t i = 0; i < count; ++i) {
        ++part_times[first[i].op->tb_id];
    }
    for (uint32_t i = 1; i < size; ++i) {
        if (part_times[i] != part_times[0]) {
            mscclpp_plan_add_finding(list->report, MSCCLPP_PLAN_INVALID, "group", first->place,
                                     "in a group of %u blocks, part 0 is done %u times, but part %u %u times", size,
                                     part_times[0], i, part_times[i]);
            break;
        }
    }
    free(part_times);
}

/*
 * Checks an operation of a plan with "reuse_resources" (mscclpp_plan_visit_fn_t). All calls of a plan with
 * "reuse_resources" share one set of resources, so peers know only the buffers of the first call. Therefore peers and
 * proxies may access only the scratch. Reports at most one fault for each operation.
 */
static void check_reuse(void *context, mscclpp_plan_place_t place, mscclpp_plan_op_t *op,
                        const mscclpp_plan_op_t *pipeline)
{
    list_t *list = context;
    const mscclpp_plan_item_t *item;
    bool is_over_port = op->channel_type == MSCCLPP_PLAN_PORT;

    (void)pipeline;
    for (uint32_t i = 0; i < op->src_count + op->dst_count; ++i) {
        item = i < op->src_count ? &op->src[i] : &op->dst[i - op->src_count];
        if (item->type != MSCCLPP_PLAN_SCRATCH &&
            (item->where != MSCCLPP_PLAN_LOCAL || (is_over_port && i < op->src_count))) {
            mscclpp_plan_add_finding(
                list->report, MSCCLPP_PLAN_INVALID, "reuse", place,
                "\"reuse_resources\" is for plans that peers and proxies touch the scratch of only; this "
                "reaches the %s of rank %u",
                mscclpp_plan_buffer_name(item->type), item->rank);
            return;
        }
    }
}

/*
 * Lists the events of all operations, sorts them, and checks the events of each key together. If memory runs out, skips
 * these checks, because events may be missing.
 */
void mscclpp_plan_check_together(mscclpp_plan_t *plan, mscclpp_plan_report_t *report)
{
    list_t list = {.plan = plan, .report = report};
    size_t count;

    mscclpp_plan_visit(plan, collect_events, &list);
    if (!report->no_memory && list.count > 0) {
        qsort(list.events, list.count, sizeof(*list.events), compare_events);
    }
    for (size_t i = 0; !report->no_memory && i < list.count; i += count) {
        const event_t *first = &list.events[i];

        for (count = 1; i + count < list.count && is_same_key(first, first + count); ++count) {
        }
        switch (first->key[0]) {
        case OF_BARRIER:
            check_barrier(&list, first, count);
            break;
        case OF_GROUP:
            check_group(&list, first, count);
            break;
        default:
            check_balance(&list, first, count);
            break;
        }
    }
    free(list.events);
    if (plan->reuse) {
        mscclpp_plan_visit(plan, check_reuse, &list);
    }
}
