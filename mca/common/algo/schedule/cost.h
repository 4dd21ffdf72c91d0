/*
 * What a schedule costs: a model of a network with a few figures, after LogGP (A. Alexandrov et al., LogGP:
 * Incorporating Long Messages into the LogP Model, SPAA 1995). Pure functions; they may be called from any thread.
 */
#ifndef MCA_COMMON_ALGO_SCHEDULE_COST_H
#define MCA_COMMON_ALGO_SCHEDULE_COST_H

#include "mca/common/algo/schedule/schedule.h"

/* Times in seconds, rates in bytes a second. */
typedef struct {
    double latency;        /* from the moment at which a message leaves until its first byte is there */
    double overhead;       /* how long a rank's processor is busy with a message that it sends */
    double gap;            /* how long a rail is busy at least with a message */
    double bandwidth;      /* of a rail, in each direction */
    double node_latency;   /* of an exchange within a node */
    double node_bandwidth; /* with which a rank sends to all others of its node together */
    double combining;      /* rate at which a rank combines two operands */
    double tile;           /* bytes of a block that travel at once; larger ones are pipelined, */
    double lanes;          /* with so many tiles under way */
    double crossing;       /* share of its rate that a rail loses where several nodes send to one */
    uint32_t rails;        /* of a node; 0: as many as ranks */
} mscclpp_cost_figures_t;

#define MSCCLPP_COST_TRANSPORTS 4

/* The number of a transport, from 0 on, or -1: there is none of that name. And its name. */
int mscclpp_cost_transport(const char *name);
const char *mscclpp_cost_transport_name(int number);

/* The built-in figures of a transport (mca/common/transport/registry.c); NULL: there is none of that name. */
const mscclpp_cost_figures_t *mscclpp_cost_builtin(const char *transport);

/* One rank's share of its node's rails, in bytes a second. */
double mscclpp_cost_rate(const mscclpp_cost_figures_t *figures, uint32_t ranks);

/* What a collective call asks of one owner of a shard. */
typedef struct {
    double block; /* bytes of a block of the schedule; of an all-reduce, of the shard */
    double give;  /* bytes that a rank sends to others of its node before the exchange between the nodes, */
    double hand;  /* for each byte that is received during it, */
    double take;  /* and after it */
} mscclpp_cost_load_t;

/*
 * The load of a call with `bytes` on nodes of `ranks` ranks each: the size of the message, or of one rank's block of
 * patterns that have several. `at_root`: on the node of the root.
 */
mscclpp_cost_load_t mscclpp_cost_load(int pattern, uint32_t nodes, uint32_t ranks, uint64_t bytes, bool at_root);

/* Seconds that the call takes by this model. */
double mscclpp_cost_estimate(const mscclpp_cost_figures_t *figures, const mscclpp_schedule_t *schedule, uint32_t ranks,
                             uint64_t bytes);

/*
 * What a call is measured against. `steps`: one latency after another, as many as the logarithm to base 2 of the number
 * of nodes, which is what every schedule takes in which a node has one message under way at a time; just one for an
 * all-to-all and a scatter, whose blocks need not be passed on. `rails`: how long one rail is busy with what it has to
 * carry at least, which no schedule can undercut.
 */
typedef struct {
    double steps;
    double rails;
} mscclpp_cost_bound_t;

mscclpp_cost_bound_t mscclpp_cost_bound(const mscclpp_cost_figures_t *figures, int pattern, uint32_t nodes,
                                        uint32_t ranks, uint64_t bytes);

#endif
