#include "mca/common/plan/trace.h"

#include <stdlib.h>
#include <string.h>

#include "mca/common/plan/sim_run.h"
#include "mca/common/plan/visit.h"

const mscclpp_plan_cost_t mscclpp_plan_default_cost = {
    .op = 0.1, .latency = 1.0, .port = 3.0, .local = 60e3, .link = 25e3, .port_rate = 40e3};

/* Enough cells in a chunk that groups of blocks can divide it and turns of pipelines are whole. */
typedef struct {
    uint32_t groups;
    uint64_t unit;
} cut_t;

/* Notes what one operation means for the size to be simulated. */
static void note_cut(void *context, mscclpp_plan_place_t place, mscclpp_plan_op_t *op,
                     const mscclpp_plan_op_t *pipeline)
{
    cut_t *cut = context;
    uint64_t a = op->unit, b = cut->unit, rest;

    (void)place, (void)pipeline;
    cut->groups = op->tbg_size > cut->groups ? op->tbg_size : cut->groups;
    if (op->kind == MSCCLPP_PLAN_OP_PIPELINE) {
        for (; b != 0; a = b, b = rest) {
            rest = a % b;
        }
        cut->unit = a;
    }
}

bool mscclpp_plan_trace(const mscclpp_plan_t *plan, uint64_t bytes, const mscclpp_plan_cost_t *cost,
                        mscclpp_plan_report_t *report, mscclpp_plan_trace_t *trace)
{
    enum { MOST_CELLS = 1024 };
    uint64_t in = 0, out = 0, chunk, cells;
    cut_t cut = {1, 0};
    mscclpp_sim_t sim = {.plan = plan, .report = report, .launches = 1, .seed = 1, .cost = cost, .trace = trace};
    int faults = report->faults;

    memset(trace, 0, sizeof(*trace));
    mscclpp_plan_visit(plan, note_cut, &cut);
    mscclpp_sim_shape(plan, 0, &in, &out);
    in = plan->collective == MSCCLPP_PLAN_ALLGATHER || in == 0 ? out : in;
    chunk = bytes / (in > 0 ? in : 1);
    chunk = chunk > 0 ? chunk : 1;
    sim.cell_size = 1;
    cells = cut.groups;
    if (cut.unit > 0) {
        sim.cell_size = cut.unit;
        cells = (chunk + cut.unit - 1) / cut.unit;
    }
    if (cells > MOST_CELLS) {
        mscclpp_plan_found(report, MSCCLPP_PLAN_INVALID, "size-limit", mscclpp_plan_nowhere,
                           "a message of %llu bytes takes more than %d turns of a pipeline", (unsigned long long)bytes,
                           MOST_CELLS);
        return false;
    }
    sim.chunk = (uint32_t)cells;
    sim.cell_bytes = (double)chunk / (double)cells;
    if (!mscclpp_sim_run(&sim, 0)) {
        mscclpp_plan_found(report, MSCCLPP_PLAN_INVALID, "size-limit", mscclpp_plan_nowhere,
                           "buffers of too many chunks to be simulated");
    }
    return report->faults == faults && !report->no_memory;
}

void mscclpp_plan_trace_destroy(mscclpp_plan_trace_t *trace)
{
    free(trace->spans);
    free(trace->arrows);
    memset(trace, 0, sizeof(*trace));
}
