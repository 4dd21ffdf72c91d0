/* mscclpp_plan show: prints what each rank does, or when it does it. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "mca/common/plan/words.h"
#include "tools/plan/plan_tool.h"

static const char help[] =
    "Usage: mscclpp_plan show [OPTION]... FILE\n"
    "Prints what each block of each rank does, and how long all takes by a simple cost model.\n"
    "\n"
    "  -r, --rank N           print this rank only\n"
    "      --bytes N          size of the message, for the times (default: 1 MiB, or what the plan's range allows)\n"
    "      --times            print when each operation begins and ends instead of what it does\n"
    "      --svg FILE         draw a picture: blocks over time, messages as arrows\n"
    "  -h, --help             print this text\n"
    "\n"
    "Exit status: 0 for success, 1 if the plan is refused, 2 for wrong usage.\n";

enum { BYTES = 256, TIMES, SVG }; /* options without a letter: values above those of all letters */

static const struct option option_table[] = {
    {"rank", required_argument, NULL, 'r'}, {"bytes", required_argument, NULL, BYTES},
    {"times", no_argument, NULL, TIMES},    {"svg", required_argument, NULL, SVG},
    {"help", no_argument, NULL, 'h'},       {NULL, 0, NULL, 0}};

typedef struct {
    uint64_t rank;     /* UINT64_MAX: all */
    uint64_t bytes;    /* 0: chosen by the plan */
    bool prints_times; /* instead of operations */
    const char *svg;   /* the picture's path; NULL: none */
} options_t;

/* Prints one operation in words, after its position in the block. */
static void show_op(const mscclpp_plan_t *plan, uint32_t rank, const mscclpp_plan_op_t *op, const char *position)
{
    char *text = plan_tool_describe(plan, rank, op);

    printf("    %-6s %-11s %s\n", position, mscclpp_plan_op_name(op->kind), text != NULL ? text : "");
    free(text);
}

/*
 * Prints all operations of a rank, block by block. An operation within a pipeline gets two numbers, such as 3.0: that
 * of the pipeline and its own.
 */
static void show_rank(const mscclpp_plan_t *plan, uint32_t rank)
{
    char position[32];

    printf("rank %" PRIu32 "\n", rank);
    for (uint32_t number = 0; number < plan->ranks[rank].block_count; ++number) {
        const mscclpp_plan_block_t *block = &plan->ranks[rank].blocks[number];

        printf("  block %" PRIu32 "\n", number);
        for (uint32_t i = 0; i < block->op_count; ++i) {
            snprintf(position, sizeof(position), "%" PRIu32, i);
            show_op(plan, rank, &block->ops[i], position);
            for (uint32_t j = 0; j < block->ops[i].body_count; ++j) {
                snprintf(position, sizeof(position), "%" PRIu32 ".%" PRIu32, i, j);
                show_op(plan, rank, &block->ops[i].body[j], position);
            }
        }
    }
}

/*
 * Prints the times at which each operation begins and ends by the cost model. If the options name a rank, only the
 * operations of this rank are printed.
 */
static void show_times(const mscclpp_plan_t *plan, const mscclpp_plan_trace_t *trace, const options_t *options)
{
    printf("%6s %6s %8s %5s %-11s %10s %10s %10s\n", "rank", "block", "op", "turn", "", "waited us", "began us",
           "ended us");
    for (size_t i = 0; i < trace->span_count; ++i) {
        const mscclpp_plan_span_t *span = &trace->spans[i];
        const mscclpp_plan_op_t *op = &plan->ranks[span->rank].blocks[span->block].ops[span->op];
        char position[32];

        if (options->rank != UINT64_MAX && options->rank != span->rank) {
            continue;
        }
        snprintf(position, sizeof(position), "%" PRIu32, span->op);
        if (span->inner >= 0) {
            op = &op->body[span->inner];
            snprintf(position, sizeof(position), "%" PRIu32 ".%d", span->op, span->inner);
        }
        printf("%6" PRIu32 " %6" PRIu32 " %8s %5" PRIu32 " %-11s %10.2f %10.2f %10.2f\n", span->rank, span->block,
               position, span->turn, mscclpp_plan_op_name(op->kind), span->began - span->came, span->began,
               span->ended);
    }
}

/*
 * Prints how long the plan takes by the cost model. If the options ask for them, also prints the times of each
 * operation and writes the picture. Returns false after a message on standard error if the plan cannot be traced or the
 * picture cannot be written. If tracing fails, the message is the text of the last finding.
 */
static bool show_trace(const mscclpp_plan_t *plan, const options_t *options)
{
    mscclpp_plan_report_t report;
    mscclpp_plan_trace_t trace;
    bool ok;

    mscclpp_plan_report_init(&report);
    ok = mscclpp_plan_trace(plan, options->bytes, &mscclpp_plan_default_cost, &report, &trace);
    if (!ok) {
        fprintf(stderr, "mscclpp_plan: no times: %s\n",
                report.count > 0 && report.findings[report.count - 1].text != NULL
                    ? report.findings[report.count - 1].text
                    : "no memory");
    } else {
        if (options->prints_times) {
            show_times(plan, &trace, options);
        }
        printf("%" PRIu64 " bytes: %.1f us by the cost model\n", options->bytes, trace.ended);
        ok = options->svg == NULL || plan_tool_svg(options->svg, plan, &trace, options->bytes);
    }
    mscclpp_plan_trace_destroy(&trace);
    mscclpp_plan_report_destroy(&report);
    return ok;
}

/*
 * Prints the plan in a file as the options ask for. If they name no number of bytes, the function sets options->bytes
 * to 1 MiB, or to the nearest size that the plan allows. A number that the user names need not be in the plan's range.
 * Returns the exit status: PLAN_REFUSED if the plan is refused or show_trace fails, PLAN_USAGE if the plan lacks the
 * rank of --rank, each after a message.
 */
static int show(const char *path, options_t *options)
{
    mscclpp_plan_t *plan = plan_tool_load(path);
    bool ok;

    if (plan == NULL) {
        return PLAN_REFUSED;
    }
    if (options->rank != UINT64_MAX && options->rank >= plan->rank_count) {
        fprintf(stderr, "mscclpp_plan show: --rank is %" PRIu64 ", but the plan has the ranks 0 to %" PRIu32 "\n",
                options->rank, plan->rank_count - 1);
        mscclpp_plan_free(plan);
        return PLAN_USAGE;
    }
    if (options->bytes == 0) {
        options->bytes = 1 << 20;
        options->bytes = options->bytes > plan->max_bytes ? plan->max_bytes : options->bytes;
        options->bytes = options->bytes < plan->min_bytes ? plan->min_bytes : options->bytes;
    }
    plan_tool_print_head(stdout, plan);
    for (uint32_t rank = 0; rank < plan->rank_count; ++rank) {
        if (!options->prints_times && (options->rank == UINT64_MAX || options->rank == rank)) {
            show_rank(plan, rank);
        }
    }
    ok = show_trace(plan, options);
    mscclpp_plan_free(plan);
    return ok ? PLAN_OK : PLAN_REFUSED;
}

/* Returns the status of show(), or PLAN_USAGE for a wrong option or if there is not exactly one file. */
int plan_tool_show(int argc, char **argv)
{
    options_t options = {.rank = UINT64_MAX};
    int option;

    optind = 1;
    while ((option = getopt_long(argc, argv, "r:h", option_table, NULL)) != -1) {
        switch (option) {
        case 'r':
            if (!plan_tool_number("--rank", optarg, 0, MSCCLPP_PLAN_MAX_RANKS, &options.rank)) {
                return PLAN_USAGE;
            }
            break;
        case BYTES:
            if (!plan_tool_number("--bytes", optarg, 1, (uint64_t)1 << 50, &options.bytes)) {
                return PLAN_USAGE;
            }
            break;
        case TIMES:
            options.prints_times = true;
            break;
        case SVG:
            options.svg = optarg;
            break;
        case 'h':
            fputs(help, stdout);
            return PLAN_OK;
        default:
            return PLAN_USAGE;
        }
    }
    if (optind + 1 != argc) {
        fprintf(stderr, "mscclpp_plan show: one FILE is needed, but there are %d\n", argc - optind);
        return PLAN_USAGE;
    }
    return show(argv[optind], &options);
}
