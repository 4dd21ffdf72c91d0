/*
 * The cost model: the time of a schedule by a model of a network with a few figures, after LogGP (A. Alexandrov et al.,
 * LogGP: Incorporating Long Messages into the LogP Model, SPAA 1995). The functions have no side effects, and any
 * thread may call them.
 */
#ifndef MCA_COMMON_ALGO_SCHEDULE_COST_H
#define MCA_COMMON_ALGO_SCHEDULE_COST_H

#include "mca/common/algo/schedule/schedule.h"

/* Figures of a transport and of a node. Times are in seconds, rates in bytes per second. */
typedef struct {
    double latency;        /* time from the start of a message to the arrival of its first byte */
    double overhead;       /* time that a rank's processor spends on a message that it sends */
    double gap;            /* the minimum time that a message occupies a rail */
    double bandwidth;      /* rate of a rail, in each direction */
    double node_latency;   /* latency of an exchange within a node */
    double node_bandwidth; /* rate at which a rank sends to all other ranks of its node together */
    double combining;      /* rate at which a rank combines two operands */
    double tile;           /* number of bytes of a block that are sent at once; larger blocks are pipelined */
    double lanes;          /* number of tiles in flight at a time */
    double crossing;       /* fraction by which a transfer takes longer if several nodes send to one */
    uint32_t rails;        /* number of rails of a node; 0: the number of its ranks */
} mscclpp_cost_figures_t;

/* The number of transports with built-in figures. */
#define MSCCLPP_COST_TRANSPORTS 4

/* Returns the index of a transport's figures, counted from 0, or -1 if no transport with figures has this name. */
int mscclpp_cost_find_transport(const char *name);

/* Returns the name of the transport with this index. */
const char *mscclpp_cost_transport_name(int transport);

/* Returns the built-in figures of a transport (mca/common/transport/registry.c), or NULL if it has none. */
const mscclpp_cost_figures_t *mscclpp_cost_find_builtin(const char *transport);

/* Returns the share of one rank in the rate of its node's rails, in bytes per second. A node has `ranks` ranks. */
double mscclpp_cost_find_rate(const mscclpp_cost_figures_t *figures, uint32_t ranks);

/* The load that a collective call puts on one owner of a shard. */
typedef struct {
    double block;         /* size in bytes of a block of the schedule; in an all-reduce, of the shard */
    double sent_before;   /* bytes that a rank sends to other ranks of its node before the exchange between nodes */
    double sent_per_byte; /* the same during the exchange, for each byte that the rank receives */
    double sent_after;    /* the same after the exchange */
} mscclpp_cost_load_t;

/*
 * Returns the load of a call on nodes of `ranks` ranks each. `bytes` is the size of the message or, in patterns with
 * several blocks, of the block of one rank. `at_root` asks for the load on the node of the root.
 */
mscclpp_cost_load_t mscclpp_cost_find_load(int pattern, uint32_t nodes, uint32_t ranks, uint64_t bytes, bool at_root);

/* Returns the time in seconds of a call on nodes of `ranks` ranks each. `bytes` is that of mscclpp_cost_find_load. */
double mscclpp_cost_estimate(const mscclpp_cost_figures_t *figures, const mscclpp_schedule_t *schedule, uint32_t ranks,
                             uint64_t bytes);

/* Lower bounds of the time of a call, in seconds. */
typedef struct {
    /*
     * The minimum time of the messages that follow one another, if each node has one message in flight at a time: log2
     * of the number of nodes, times the latency. In an all-to-all and a scatter it is one latency, because no node
     * needs to pass blocks on.
     */
    double steps;
    double rails; /* the minimum time in which one rail carries its data, in any schedule */
} mscclpp_cost_bound_t;

/* Returns the lower bounds of a call. The parameters are those of mscclpp_cost_find_load. */
mscclpp_cost_bound_t mscclpp_cost_find_bound(const mscclpp_cost_figures_t *figures, int pattern, uint32_t nodes,
                                             uint32_t ranks, uint64_t bytes);

#endif
