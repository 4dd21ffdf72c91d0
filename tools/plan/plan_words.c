/* Says in words what operations and plans do, and reads the plan for all commands. */
#include <stdio.h>
#include <stdlib.h>

#include "mca/common/plan/words.h"
#include "tools/plan/plan_tool.h"

/*
 * Prints a range of chunks of a buffer. If the buffer does not belong to `rank` itself, the owning rank or ranks are
 * printed before it.
 */
static void print_item(FILE *out, const mscclpp_plan_t *plan, uint32_t rank, const mscclpp_plan_item_t *item)
{
    const char *buffer = mscclpp_plan_buffer_name(item->type);

    if (item->where == MSCCLPP_PLAN_REMOTE) {
        fprintf(out, "rank %u's ", item->rank);
    } else if (item->where == MSCCLPP_PLAN_MULTICAST) {
        const mscclpp_plan_group_t *group = &plan->ranks[rank].groups[item->group];

        fprintf(out, "all ");
        for (uint32_t i = 0; i < group->count; ++i) {
            fprintf(out, "%s%u", i > 0 ? "," : "", group->ranks[i]);
        }
        fprintf(out, "'s ");
    }
    if (item->size == 1) {
        fprintf(out, "%s[%u]", buffer, item->index);
    } else {
        fprintf(out, "%s[%u..%u]", buffer, item->index, item->index + item->size - 1);
    }
}

/* Prints items `from` to `count` - 1 of a list, with the text `between` between them. */
static void print_items(FILE *out, const mscclpp_plan_t *plan, uint32_t rank, const mscclpp_plan_item_t *items,
                        uint32_t from, uint32_t count, const char *between)
{
    for (uint32_t i = from; i < count; ++i) {
        fprintf(out, "%s", i > from ? between : "");
        print_item(out, plan, rank, &items[i]);
    }
}

/* Prints the peers of an operation, separated by commas, with the channel that leads to each. */
static void print_peers(FILE *out, const mscclpp_plan_t *plan, uint32_t rank, const mscclpp_plan_op_t *op)
{
    for (uint32_t i = 0; i < op->channel_count; ++i) {
        fprintf(out, "%s%u (%s channel %u)", i > 0 ? ", " : "",
                plan->ranks[rank].channels[op->channel_type][op->channels[i]].peer,
                mscclpp_plan_channel_name(op->channel_type), op->channels[i]);
    }
}

/* Prints numbers with commas in between. */
static void print_numbers(FILE *out, const uint32_t *numbers, uint32_t count)
{
    for (uint32_t i = 0; i < count; ++i) {
        fprintf(out, "%s%u", i > 0 ? ", " : "", numbers[i]);
    }
}

/*
 * Prints each source of an operation with its destination. mscclpp_plan_check has refused operations in which the
 * numbers of both differ.
 */
static void print_pairs(FILE *out, const mscclpp_plan_t *plan, uint32_t rank, const mscclpp_plan_op_t *op)
{
    for (uint32_t i = 0; i < op->src_count; ++i) {
        fprintf(out, "%s", i > 0 ? "; " : "");
        print_item(out, plan, rank, &op->src[i]);
        fprintf(out, " to ");
        print_item(out, plan, rank, &op->dst[i]);
    }
}

/* Returns how the text of a reduction begins. */
static const char *get_reduction_words(mscclpp_plan_reduce_t reduce)
{
    if (reduce == MSCCLPP_PLAN_SUM) {
        return "sum of ";
    }
    return reduce == MSCCLPP_PLAN_MIN ? "minimum of " : "maximum of ";
}

/*
 * Returns the verb of an operation that moves each source to its own destination. Returns NULL for all other
 * operations.
 */
static const char *get_pair_verb(const mscclpp_plan_op_t *op)
{
    bool by_proxy = op->channel_type == MSCCLPP_PLAN_PORT;

    switch (op->kind) {
    case MSCCLPP_PLAN_OP_COPY:
        return "copies ";
    case MSCCLPP_PLAN_OP_PUT:
    case MSCCLPP_PLAN_OP_PWS:
    case MSCCLPP_PLAN_OP_PWSF:
        return by_proxy ? "lets the proxy put " : "puts ";
    case MSCCLPP_PLAN_OP_GET:
        return "gets ";
    case MSCCLPP_PLAN_OP_PPKT:
        return by_proxy ? "lets the proxy move the packets of " : "sends as packets ";
    case MSCCLPP_PLAN_OP_CPKT:
        return "copies, as packets, ";
    case MSCCLPP_PLAN_OP_UPKT:
        return "unpacks ";
    case MSCCLPP_PLAN_OP_GSTORE:
    case MSCCLPP_PLAN_OP_GSTOREPKT:
        return "stores ";
    default:
        return NULL;
    }
}

/*
 * Prints what a reduction does. A reduction that sends packets writes the plain result to its first destination only,
 * and sends packets to all other destinations.
 */
static void print_reduction(FILE *out, const mscclpp_plan_t *plan, uint32_t rank, const mscclpp_plan_op_t *op)
{
    bool sends_packets =
        op->kind == MSCCLPP_PLAN_OP_RESPKT || op->kind == MSCCLPP_PLAN_OP_RECPKT || op->kind == MSCCLPP_PLAN_OP_RECSPKT;
    /* Destinations that get the plain result, without packets. */
    uint32_t plain_count = sends_packets ? 1 : op->dst_count;

    fprintf(out, "writes the %s", get_reduction_words(op->reduce));
    print_items(out, plan, rank, op->src, 0, op->src_count, " + ");
    fprintf(out, " to ");
    print_items(out, plan, rank, op->dst, 0, plain_count, ", ");
    if (plain_count < op->dst_count) {
        fprintf(out, ", and as packets to ");
        print_items(out, plan, rank, op->dst, plain_count, op->dst_count, ", ");
    }
}

/*
 * Prints what an operation that moves or reduces data does. An operation that forwards packets is a separate case; any
 * other operation for which get_pair_verb knows no verb is a reduction.
 */
static void print_data_op(FILE *out, const mscclpp_plan_t *plan, uint32_t rank, const mscclpp_plan_op_t *op)
{
    const char *verb = get_pair_verb(op);

    if (op->kind == MSCCLPP_PLAN_OP_RPPKT) {
        fprintf(out, "passes on the packets of ");
        print_item(out, plan, rank, &op->src[0]);
        fprintf(out, " to ");
        print_items(out, plan, rank, op->dst, 0, op->dst_count, ", ");
    } else if (verb == NULL) {
        print_reduction(out, plan, rank, op);
    } else {
        fprintf(out, "%s", verb);
        print_pairs(out, plan, rank, op);
    }
    if (op->kind == MSCCLPP_PLAN_OP_PWS || op->kind == MSCCLPP_PLAN_OP_PWSF) {
        fprintf(out, ", and signal");
    }
    if (op->kind == MSCCLPP_PLAN_OP_PWSF) {
        fprintf(out, ", and waits until that is done");
    }
}

/*
 * Composes the text in a stream in memory. If several blocks share the operation, the text ends with this block's part
 * of it.
 */
char *plan_tool_describe(const mscclpp_plan_t *plan, uint32_t rank, const mscclpp_plan_op_t *op)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    if (out == NULL) {
        return NULL;
    }
    switch (op->kind) {
    case MSCCLPP_PLAN_OP_NOP:
        fprintf(out, "all threads meet");
        break;
    case MSCCLPP_PLAN_OP_BARRIER:
        fprintf(out, "meets the blocks of barrier %u, %u of them", op->barrier, op->barrier_blocks);
        break;
    case MSCCLPP_PLAN_OP_SIGNAL:
    case MSCCLPP_PLAN_OP_RLXSIGNAL:
        fprintf(out, "signals rank ");
        print_peers(out, plan, rank, op);
        break;
    case MSCCLPP_PLAN_OP_WAIT:
    case MSCCLPP_PLAN_OP_RLXWAIT:
        fprintf(out, "waits for a signal of rank ");
        print_peers(out, plan, rank, op);
        break;
    case MSCCLPP_PLAN_OP_FLUSH:
        fprintf(out, "waits until the proxy has done everything for rank ");
        print_peers(out, plan, rank, op);
        break;
    case MSCCLPP_PLAN_OP_ACQUIRE:
        fprintf(out, "acquires semaphore ");
        print_numbers(out, op->semaphores, op->semaphore_count);
        break;
    case MSCCLPP_PLAN_OP_RELEASE:
        fprintf(out, "releases semaphore ");
        print_numbers(out, op->semaphores, op->semaphore_count);
        break;
    case MSCCLPP_PLAN_OP_PIPELINE:
        fprintf(out, "does %u operations for every %llu bytes of %u chunk%s", op->body_count,
                (unsigned long long)op->unit, op->num_chunks, op->num_chunks == 1 ? "" : "s");
        break;
    default:
        print_data_op(out, plan, rank, op);
        break;
    }
    if (op->tbg_size > 0) {
        fprintf(out, " (part %u of %u)", op->tb_id, op->tbg_size);
    }
    fclose(out);
    return text;
}

void plan_tool_print_head(FILE *out, const mscclpp_plan_t *plan)
{
    const mscclpp_plan_rank_t *rank = &plan->ranks[0];

    fprintf(out, "%s: %s on %u rank%s, %s, protocol %s%s%s\n", plan->name,
            mscclpp_plan_collective_name(plan->collective), plan->rank_count, plan->rank_count == 1 ? "" : "s",
            plan->in_place ? "in place" : "out of place", plan->uses_packets ? "LL" : "Simple",
            plan->halves ? ", scratch in halves" : "", plan->reuse ? ", one scratch for all buffers" : "");
    fprintf(out, "messages of %llu to %llu bytes, alignment %u, %u threads a block\n",
            (unsigned long long)plan->min_bytes, (unsigned long long)plan->max_bytes, plan->alignment, plan->threads);
    fprintf(out,
            "rank 0 has %u input, %u output and %u scratch chunks, %u blocks, %u memory, %u port and %u switch "
            "channels, %u semaphores\n",
            rank->chunks[MSCCLPP_PLAN_INPUT], rank->chunks[MSCCLPP_PLAN_OUTPUT], rank->chunks[MSCCLPP_PLAN_SCRATCH],
            rank->block_count, rank->channel_count[MSCCLPP_PLAN_MEMORY], rank->channel_count[MSCCLPP_PLAN_PORT],
            rank->group_count, rank->semaphore_count);
}

/*
 * Reads and checks a plan. Prints the findings only if the plan is refused, so notes about a plan that is right are not
 * shown.
 */
mscclpp_plan_t *plan_tool_load(const char *path)
{
    mscclpp_plan_report_t report;
    mscclpp_plan_t *plan = NULL;
    char place[80];

    mscclpp_plan_report_init(&report);
    if (mscclpp_plan_read(path, &report, &plan) == MSCCLPP_OK && !mscclpp_plan_check(plan, &report)) {
        mscclpp_plan_free(plan);
        plan = NULL;
    }
    for (int i = 0; i < report.count && plan == NULL; ++i) {
        fprintf(stderr, "mscclpp_plan: %s: %s: %s [%s]\n", path,
                mscclpp_plan_place_text(report.findings[i].place, place, sizeof(place)),
                report.findings[i].text != NULL ? report.findings[i].text : "no memory", report.findings[i].rule);
    }
    if (plan == NULL && report.no_memory) {
        fprintf(stderr, "mscclpp_plan: %s: no memory\n", path);
    }
    mscclpp_plan_report_destroy(&report);
    return plan;
}
