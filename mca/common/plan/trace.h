/*
 * Records when each block of a plan does what, by a simple cost model. The times serve to compare two plans, and show
 * who waits for whom. They do not predict a machine.
 */
#ifndef MCA_COMMON_PLAN_TRACE_H
#define MCA_COMMON_PLAN_TRACE_H

#include "mca/common/plan/plan.h"

/* What things cost: microseconds, and bytes per microsecond. */
typedef struct {
    double op;                  /* time of every operation, besides its data */
    double latency;             /* time of a signal or packet to a peer */
    double port;                /* time of one request to a proxy, besides its data */
    double local, link;         /* rate of one block within its GPU, and to peers */
    double gpu_local, gpu_link; /* the same of a whole GPU, which its blocks share evenly */
    double gpu_port;            /* rate that those port channels of a GPU that move data share evenly */
} mscclpp_plan_cost_t;

extern const mscclpp_plan_cost_t mscclpp_plan_default_cost;

/* One operation of a block. Times are in microseconds. */
typedef struct {
    uint32_t rank, block, op;
    int32_t inner;             /* its position in the body of the pipeline `op`; -1: it is in none */
    uint32_t turn;             /* of the pipeline, from 0 */
    double came, began, ended; /* the block reached it; all that it needs was there; it was done */
} mscclpp_plan_span_t;

/* A signal, or the packets of one operation, from block to block. */
typedef struct {
    uint32_t from_rank, from_block, to_rank, to_block;
    double sent, comes; /* when it was sent and when it arrived, microseconds */
    bool packet;        /* not a signal */
} mscclpp_plan_arrow_t;

/* What happened in one launch, in the order in which it was simulated. */
typedef struct {
    mscclpp_plan_span_t *spans;
    size_t span_count, span_capacity; /* spans; entries allocated */
    mscclpp_plan_arrow_t *arrows;
    size_t arrow_count, arrow_capacity; /* arrows; entries allocated */
    double ended;                       /* when the last operation was done */
} mscclpp_plan_trace_t;

/*
 * Traces one launch with a message of `bytes` on every rank, of a plan in which mscclpp_plan_check has found no fault.
 * Returns false after a fault, which is in the report. The caller destroys the trace in any case.
 */
bool mscclpp_plan_trace(const mscclpp_plan_t *plan, uint64_t bytes, const mscclpp_plan_cost_t *cost,
                        mscclpp_plan_report_t *report, mscclpp_plan_trace_t *trace);
void mscclpp_plan_trace_destroy(mscclpp_plan_trace_t *trace);

#endif
