/*
 * When each block of a plan does what, by a simple cost model. The times allow comparing two plans and show who waits
 * for whom; they do not predict a machine.
 */
#ifndef MCA_COMMON_PLAN_TRACE_H
#define MCA_COMMON_PLAN_TRACE_H

#include "mca/common/plan/plan.h"

/* Microseconds, and bytes per microsecond. */
typedef struct {
    double op;          /* every operation */
    double latency;     /* of a signal or packet to a peer */
    double port;        /* of one entry of a proxy */
    double local, link; /* rate of one block within its GPU, and to peers */
    double gpu_local, gpu_link,
        gpu_port; /* rate that the blocks, or the port channels that move data, of a GPU share evenly */
} mscclpp_plan_cost_t;

extern const mscclpp_plan_cost_t mscclpp_plan_default_cost;

/* One operation of a block: when the block reached it, when all that it needs was there, and when it ended. */
typedef struct {
    uint32_t rank, block, op;
    int32_t inner;
    uint32_t turn;
    double came, began, ended;
} mscclpp_plan_span_t;

/* A signal or a packet operation, from block to block. */
typedef struct {
    uint32_t from_rank, from_block, to_rank, to_block;
    double sent, comes;
    bool packet;
} mscclpp_plan_arrow_t;

typedef struct {
    mscclpp_plan_span_t *spans;
    size_t span_count, span_room;
    mscclpp_plan_arrow_t *arrows;
    size_t arrow_count, arrow_room;
    double ended;
} mscclpp_plan_trace_t;

/*
 * Traces one launch with a message of `bytes` on every rank. Needs a plan without static faults. False after a fault.
 */
bool mscclpp_plan_trace(const mscclpp_plan_t *plan, uint64_t bytes, const mscclpp_plan_cost_t *cost,
                        mscclpp_plan_report_t *report, mscclpp_plan_trace_t *trace);
void mscclpp_plan_trace_destroy(mscclpp_plan_trace_t *trace);

#endif
