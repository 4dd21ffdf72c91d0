/*
 * Records when each block of a plan executes its operations, by a simple cost model. The times can be used to compare
 * two plans, and show which blocks wait for which. They do not predict the times on a machine.
 */
#ifndef MCA_COMMON_PLAN_TRACE_H
#define MCA_COMMON_PLAN_TRACE_H

#include "mca/common/plan/plan.h"

/* The costs of the model, in microseconds, and in bytes per microsecond. */
typedef struct {
    double op;                  /* time of every operation, besides its data */
    double latency;             /* time of a signal or packet to a peer */
    double port;                /* time of one request to a proxy, besides its data */
    double local, link;         /* rate of one block within its GPU, and to peers */
    double gpu_local, gpu_link; /* the same rates for a whole GPU, which its blocks share evenly */
    double gpu_port;            /* rate that those port channels of a GPU that move data share evenly */
} mscclpp_plan_cost_t;

extern const mscclpp_plan_cost_t mscclpp_plan_default_cost;

/* One operation of a block. Times are in microseconds. */
typedef struct {
    uint32_t rank, block, op;
    int32_t inner;             /* position in the body of the pipeline `op`; -1: not in a pipeline */
    uint32_t turn;             /* turn of the pipeline, from 0 */
    double came, began, ended; /* when the block reached the operation; when it could begin; when it was done */
} mscclpp_plan_span_t;

/* An arrow: a signal, or the packets of one operation, from block to block. */
typedef struct {
    uint32_t from_rank, from_block, to_rank, to_block;
    double sent_at, arrives_at; /* when it was sent and when it arrived, in microseconds */
    bool is_packet;             /* the arrow is for packets; false: for a signal */
} mscclpp_plan_arrow_t;

/* The trace of one launch, in the order in which it was simulated. */
typedef struct {
    mscclpp_plan_span_t *spans;
    size_t span_count, span_capacity; /* number of spans, and of allocated entries */
    mscclpp_plan_arrow_t *arrows;
    size_t arrow_count, arrow_capacity; /* number of arrows, and of allocated entries */
    double ended;                       /* when the last operation was done */
} mscclpp_plan_trace_t;

/*
 * Traces one launch of a plan with a message of `bytes` bytes: the size of a rank's input, or of its output for an
 * all-gather or without an input. A chunk has at least one byte. mscclpp_plan_check must have found no fault in the
 * plan. Returns false after a fault, which is in the report, or if memory runs out (report->no_memory). The caller
 * destroys the trace in any case.
 */
bool mscclpp_plan_trace(const mscclpp_plan_t *plan, uint64_t bytes, const mscclpp_plan_cost_t *cost,
                        mscclpp_plan_report_t *report, mscclpp_plan_trace_t *trace);
void mscclpp_plan_trace_destroy(mscclpp_plan_trace_t *trace);

#endif
