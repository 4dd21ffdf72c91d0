/* Chooses the sizes and orders of steps with which a plan is simulated. */
#include "mca/common/plan/simulate.h"

#include "mca/common/plan/sim_run.h"
#include "mca/common/plan/visit.h"
#include "mca/common/plan/words.h"

enum {
    MAX_SIZES = 4,    /* that choose_sizes may choose */
    MAX_TURNS = 4096, /* cells of a turn, or of a scratch chunk that turns go around */
    MAX_AGENTS = 4096 /* actors of a run */
};
static const uint64_t max_accesses = 100 << 20;     /* accesses of cells in a run */
static const uint64_t max_work = (uint64_t)4 << 30; /* operations of a run, times its actors */
static const uint64_t small_work = 4 << 20;         /* of such work; runs with less are repeated in more orders */
/* The size of the scratch, in bytes, where one scratch serves all buffers. */
static const uint64_t scratch_bytes = (uint64_t)64 << 20;

/* The results of a visit of all operations of a plan. Sizes of turns are in bytes. */
typedef struct {
    const mscclpp_plan_t *plan;
    uint64_t unit;           /* greatest common divisor of the turns of all pipelines; 0: no pipeline */
    uint64_t longest_turn;   /* of all pipelines */
    uint64_t turns_multiple; /* least common multiple of all turns; 0: no pipeline; UINT64_MAX: too large a number */
    bool has_groups;         /* groups of blocks share operations */
    bool has_min_or_max;     /* it combines by min or max */
    bool pipelines_use_scratch;
    bool uses_scratch_outside;  /* operations outside of pipelines do */
    uint64_t ops;               /* operations of a launch, those in pipelines counted once */
    uint64_t operands;          /* chunks that operations outside of pipelines access in a launch */
    uint64_t pipeline_operands; /* chunks that operations in pipelines access in a launch */
} survey_t;

/* One size of chunks to simulate; see the fields of mscclpp_sim_t. */
typedef struct {
    uint32_t cells_per_chunk, wrap_cells;
    uint64_t cell_size;
} size_case_t;

/* Returns the greatest common divisor. If one of the numbers is 0, the result is the other one. */
static uint64_t common_divisor(uint64_t first, uint64_t second)
{
    uint64_t remainder;

    for (; second != 0; first = second, second = remainder) {
        remainder = first % second;
    }
    return first;
}

/*
 * Returns the least common multiple. If one of the numbers is 0, the result is the other one. UINT64_MAX stands for
 * every multiple that does not fit: no scratch is as large.
 */
static uint64_t common_multiple(uint64_t first, uint64_t second)
{
    uint64_t multiple;

    if (first == 0 || second == 0) {
        return first + second;
    }
    if (first == UINT64_MAX || __builtin_mul_overflow(first / common_divisor(first, second), second, &multiple)) {
        return UINT64_MAX;
    }
    return multiple;
}

/*
 * Adds one operation to the survey (mscclpp_plan_visit_fn_t). choose_sizes later picks the sizes from it. A multicast
 * operand counts once for each rank of its group.
 */
static void survey_op(void *context, mscclpp_plan_place_t place, mscclpp_plan_op_t *op,
                      const mscclpp_plan_op_t *pipeline)
{
    survey_t *survey = context;
    const mscclpp_plan_item_t *item;
    uint64_t *operands = pipeline != NULL ? &survey->pipeline_operands : &survey->operands;
    uint64_t members;

    ++survey->ops;
    survey->has_min_or_max = survey->has_min_or_max || op->reduce != MSCCLPP_PLAN_SUM;
    survey->has_groups = survey->has_groups || op->tbg_size > 0;
    if (op->kind == MSCCLPP_PLAN_OP_PIPELINE) {
        survey->turns_multiple = common_multiple(survey->turns_multiple, op->unit);
        survey->unit = common_divisor(op->unit, survey->unit);
        survey->longest_turn = op->unit > survey->longest_turn ? op->unit : survey->longest_turn;
    }
    for (uint32_t i = 0; i < op->src_count + op->dst_count; ++i) {
        item = i < op->src_count ? &op->src[i] : &op->dst[i - op->src_count];
        members = item->where == MSCCLPP_PLAN_MULTICAST ? survey->plan->ranks[place.rank].groups[item->group].count : 1;
        *operands += (uint64_t)item->size * members;
        if (item->type == MSCCLPP_PLAN_SCRATCH) {
            survey->pipelines_use_scratch = survey->pipelines_use_scratch || pipeline != NULL;
            survey->uses_scratch_outside = survey->uses_scratch_outside || pipeline == NULL;
        }
    }
}

/*
 * Returns the bytes of a chunk in the plan's largest message. The size of a message is that of the input, but of the
 * output for an all-gather or if there is no input. Rank 0 represents all ranks.
 */
static uint64_t find_largest_chunk_bytes(const mscclpp_plan_t *plan)
{
    uint64_t in_chunks = 0, out_chunks = 0, message_chunks;

    mscclpp_sim_get_shape(plan, 0, &in_chunks, &out_chunks);
    message_chunks = plan->collective == MSCCLPP_PLAN_ALLGATHER || in_chunks == 0 ? out_chunks : in_chunks;
    return message_chunks > 0 ? plan->max_bytes / message_chunks : plan->max_bytes;
}

/*
 * Returns the bytes of a scratch chunk if one scratch serves all buffers, so that pipelines over larger chunks go
 * around it. Returns 0 if the scratch is always as large as the message.
 *
 * One scratch serves all buffers only if the plan says "reuse_resources" and uses its scratch only in pipelines,
 * because other operations need whole chunks. The result is a multiple of the turns of every pipeline, so a turn never
 * extends past the end.
 */
static uint64_t find_wrap_bytes(const survey_t *survey)
{
    const mscclpp_plan_t *plan = survey->plan;
    const bool may_wrap = plan->reuse && survey->pipelines_use_scratch && !survey->uses_scratch_outside;
    uint64_t bytes = scratch_bytes, chunks = 0;

    for (uint32_t rank_number = 0; rank_number < plan->rank_count; ++rank_number) {
        if (plan->ranks[rank_number].chunks[MSCCLPP_PLAN_SCRATCH] > chunks) {
            chunks = plan->ranks[rank_number].chunks[MSCCLPP_PLAN_SCRATCH];
        }
    }
    if (!may_wrap || chunks == 0 || survey->turns_multiple == 0) {
        return 0;
    }
    bytes = (plan->halves ? bytes / 2 : bytes) / chunks;
    return bytes / survey->turns_multiple * survey->turns_multiple;
}

/*
 * Writes the sizes for a plan without pipelines into `sizes`, and returns their number. They are small, and give groups
 * of blocks even and uneven parts.
 */
static int choose_small_sizes(bool has_groups, size_case_t *sizes)
{
    int count = 0;

    sizes[count++] = (size_case_t){.cells_per_chunk = 1, .cell_size = 1};
    if (has_groups) {
        sizes[count++] =
            (size_case_t){.cells_per_chunk = 4, .cell_size = 1}; /* even parts for groups of 2 and 4 blocks */
        sizes[count++] = (size_case_t){.cells_per_chunk = 5, .cell_size = 1}; /* uneven parts */
    } else {
        sizes[count++] = (size_case_t){.cells_per_chunk = 2, .cell_size = 1};
    }
    return count;
}

/*
 * Writes the sizes to simulate into `sizes`, which has MAX_SIZES entries, and returns their number. With pipelines, the
 * sizes are less than a turn, one turn, more than one turn, and a size for which the scratch wraps around. Sizes beyond
 * the plan's range of messages are left out, and so are sizes that are too large to simulate. If the size that wraps
 * around is too large, a note in the report says so.
 */
static int choose_sizes(const survey_t *survey, mscclpp_plan_report_t *report, size_case_t *sizes)
{
    const uint64_t largest = find_largest_chunk_bytes(survey->plan), wrap_size = find_wrap_bytes(survey);
    uint64_t cell_size, longest_turn_cells;
    int count = 0;

    if (survey->unit == 0) {
        return choose_small_sizes(survey->has_groups, sizes);
    }
    /*
     * A cell is half of the turns' common divisor, so that a chunk may end within a turn. The sizes are one cell, the
     * longest turn, and two of these with one cell more.
     */
    cell_size = survey->unit % 2 == 0 ? survey->unit / 2 : survey->unit;
    longest_turn_cells = survey->longest_turn / cell_size;
    sizes[count++] = (size_case_t){.cells_per_chunk = 1, .cell_size = cell_size};
    if (longest_turn_cells <= MAX_TURNS && largest >= survey->longest_turn) {
        sizes[count++] = (size_case_t){.cells_per_chunk = (uint32_t)longest_turn_cells, .cell_size = cell_size};
    }
    if (longest_turn_cells <= MAX_TURNS && largest > survey->longest_turn) {
        sizes[count++] =
            (size_case_t){.cells_per_chunk = (uint32_t)(2 * longest_turn_cells + 1), .cell_size = cell_size};
    }
    if (wrap_size > 0 && largest > wrap_size) {
        if (wrap_size / survey->unit <= MAX_TURNS) {
            /* Three cells more than fit the scratch, so that some turns go around it. */
            sizes[count++] = (size_case_t){.cells_per_chunk = (uint32_t)(wrap_size / survey->unit + 3),
                                           .wrap_cells = (uint32_t)(wrap_size / survey->unit),
                                           .cell_size = survey->unit};
        } else {
            mscclpp_plan_add_finding(report, MSCCLPP_PLAN_NOTE, "not-simulated", mscclpp_plan_nowhere,
                                     "chunks of more than %llu bytes, for which the scratch wraps around",
                                     (unsigned long long)wrap_size);
        }
    }
    return count;
}

/*
 * Simulates the plan once. 0 as `order_seed` is the fixed order, in which each actor continues until it has to wait.
 * `first_rank` is that of mscclpp_sim_t. Buffers that are too large count as a fault. A lack of memory is not a fault;
 * it only sets report->no_memory.
 */
static void run_once(const survey_t *survey, const mscclpp_plan_sim_options_t *options, const size_case_t *size,
                     uint64_t order_seed, uint32_t first_rank, mscclpp_plan_report_t *report,
                     mscclpp_plan_sim_stats_t *stats)
{
    mscclpp_sim_t sim = {.plan = survey->plan,
                         .report = report,
                         .cells_per_chunk = size->cells_per_chunk,
                         .wrap_cells = size->wrap_cells,
                         .cell_size = size->cell_size,
                         .launches = (uint32_t)options->launches,
                         .seed = options->seed,
                         .has_min_or_max = survey->has_min_or_max,
                         .first_rank = first_rank};

    if (!mscclpp_sim_run(&sim, order_seed)) {
        mscclpp_plan_add_finding(report, MSCCLPP_PLAN_INVALID, "size-limit", mscclpp_plan_nowhere,
                                 "the buffers have too many chunks to be simulated");
    }
    stats->steps += sim.steps;
    ++stats->runs;
}

/*
 * Returns the number of runs for one order of the actors. A run tells apart the parts of at most MSCCLPP_SIM_TOLD_APART
 * ranks, so an order may take several runs.
 */
static uint32_t count_runs_of_order(const survey_t *survey)
{
    return survey->has_min_or_max ? (survey->plan->rank_count - 1) / MSCCLPP_SIM_TOLD_APART + 1 : 1;
}

/* Simulates the plan in one order of the actors, in as many runs as its ranks need. Stops at the first fault. */
static void run(const survey_t *survey, const mscclpp_plan_sim_options_t *options, const size_case_t *size,
                uint64_t order_seed, mscclpp_plan_report_t *report, mscclpp_plan_sim_stats_t *stats)
{
    const int faults_before = report->faults;

    for (uint32_t i = 0; i < count_runs_of_order(survey) && report->faults == faults_before && !report->no_memory;
         ++i) {
        run_once(survey, options, size, order_seed, i * MSCCLPP_SIM_TOLD_APART, report, stats);
    }
}

/*
 * Simulates a size at which pipelines go around the scratch. The faults go to a report of their own, of which the first
 * becomes a note in the caller's report. The plan is not refused, because its scratch can be made as large as the
 * message.
 */
static void try_wrap(const survey_t *survey, const mscclpp_plan_sim_options_t *options, const size_case_t *size,
                     mscclpp_plan_report_t *report, mscclpp_plan_sim_stats_t *stats)
{
    mscclpp_plan_report_t wrap_report;

    mscclpp_plan_report_init(&wrap_report);
    for (uint64_t order = 0; order < 2 && wrap_report.faults == 0 && !wrap_report.no_memory; ++order) {
        run(survey, options, size, order == 0 ? 0 : options->seed + order, &wrap_report, stats);
    }
    for (int i = 0; i < wrap_report.count && wrap_report.faults > 0; ++i) {
        if (wrap_report.findings[i].kind == MSCCLPP_PLAN_NOTE || wrap_report.findings[i].text == NULL) {
            continue;
        }
        mscclpp_plan_add_finding(
            report, MSCCLPP_PLAN_NOTE, "wrap", mscclpp_plan_nowhere,
            "nothing keeps its pipelines from going around a scratch of %llu bytes a chunk faster than "
            "it is emptied, so larger chunks need as much scratch: %s",
            (unsigned long long)size->wrap_cells * size->cell_size, wrap_report.findings[i].text);
        break;
    }
    report->no_memory = report->no_memory || wrap_report.no_memory;
    mscclpp_plan_report_destroy(&wrap_report);
    ++stats->sizes;
}

/* Simulates each size in 2 or 4 orders, until the first fault. A plan that is too large counts as a fault. */
bool mscclpp_plan_simulate(const mscclpp_plan_t *plan, const mscclpp_plan_sim_options_t *options,
                           mscclpp_plan_report_t *report, mscclpp_plan_sim_stats_t *stats)
{
    survey_t survey = {.plan = plan};
    size_case_t sizes[MAX_SIZES];
    int faults_before = report->faults, count, orders;
    uint64_t cell_accesses, work, agents = plan->rank_count;

    mscclpp_plan_visit(plan, survey_op, &survey);
    *stats = (mscclpp_plan_sim_stats_t){.has_result = mscclpp_sim_has_result(plan)};
    for (uint32_t rank_number = 0; rank_number < plan->rank_count; ++rank_number) {
        agents += plan->ranks[rank_number].block_count + plan->ranks[rank_number].channel_count[MSCCLPP_PLAN_PORT];
    }
    count = choose_sizes(&survey, report, sizes);
    for (int i = 0; i < count && report->faults == faults_before && !report->no_memory; ++i) {
        cell_accesses =
            (survey.operands + survey.pipeline_operands) * sizes[i].cells_per_chunk * (uint64_t)options->launches;
        /* An operation in a pipeline may be executed once for each cell. */
        work =
            (survey.ops + survey.pipeline_operands * sizes[i].cells_per_chunk) * agents * (uint64_t)options->launches;
        work *= count_runs_of_order(&survey);
        orders = work < small_work ? 4 : 2; /* the fixed one, and random ones */
        if (cell_accesses > max_accesses || work > max_work || agents > MAX_AGENTS) {
            mscclpp_plan_add_finding(report, MSCCLPP_PLAN_INVALID, "size-limit", mscclpp_plan_nowhere,
                                     "too large to be simulated: %llu accesses by %llu blocks and channels",
                                     (unsigned long long)cell_accesses, (unsigned long long)agents);
            break;
        }
        if (sizes[i].wrap_cells > 0) {
            try_wrap(&survey, options, &sizes[i], report, stats);
            continue;
        }
        /* Every size and order has its own seed, not 0 unless it is the fixed order: at most 4 orders of each size. */
        for (int order = 0; order < orders && report->faults == faults_before && !report->no_memory; ++order) {
            run(&survey, options, &sizes[i], order == 0 ? 0 : options->seed * 8 + (uint64_t)(4 * i + order), report,
                stats);
        }
        ++stats->sizes;
    }
    return report->faults == faults_before && !report->no_memory;
}
