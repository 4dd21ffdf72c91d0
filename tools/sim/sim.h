/* mscclpp_sim simulates the schedules of mca/common/algo/schedule on a model of the network, by discrete events. */
#ifndef TOOLS_SIM_SIM_H
#define TOOLS_SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "mca/common/algo/schedule/cost.h"
#include "mca/common/algo/schedule/schedule.h"

#define SIM_MAX_NODES 4096u
#define SIM_MAX_RANKS 64u /* of a node */

typedef enum { SIM_FULL, SIM_FAT_TREE, SIM_DRAGONFLY, SIM_NETWORKS } sim_network_kind_t;

extern const char *const sim_network_names[SIM_NETWORKS];

/* What one run simulates. */
typedef struct {
    mscclpp_cost_figures_t figures;
    mscclpp_schedule_t schedule;
    uint32_t ranks;      /* of a node */
    uint64_t bytes;      /* of the message, or of one rank's block */
    uint64_t tile_bytes; /* how much of a block travels at once */
    uint32_t lanes;      /* of a rank: blocks of its grid, each of which works on one tile at a time */
    sim_network_kind_t network;
    uint32_t group;      /* nodes of a leaf switch or of a group */
    double taper;        /* bandwidth of a group's nodes, divided by that of its links to other groups */
    double jitter;       /* mean delay of a message, seconds; delays are exponentially distributed */
    uint32_t stragglers; /* how many nodes begin late */
    double late_by;      /* seconds by which the stragglers begin late */
    int64_t dead_node;   /* the node that dies; -1: none */
    uint64_t dead_step;  /* how many steps each of its lanes carries out before it dies */
    uint64_t seed;
    bool simulates_all_nodes; /* simulate all nodes, even if one could be simulated for all (sim_is_symmetric) */
} sim_run_t;

/* Classes of links: of nodes, between leaf switches and the core, between groups of a dragonfly. */
typedef enum { SIM_SENDING, SIM_RECEIVING, SIM_UP, SIM_DOWN, SIM_GLOBAL, SIM_CLASSES } sim_class_t;

extern const char *const sim_class_names[SIM_CLASSES];

/* The traffic on the links of one class. */
typedef struct {
    uint64_t links;
    double min_bytes, mean_bytes, max_bytes; /* of a link */
    double busy_fraction;                    /* the fraction of the time during which the busiest link carries bytes */
} sim_traffic_t;

typedef struct {
    double time;             /* seconds until the last node ends; if a node dies, until the last event */
    double first_end;        /* seconds until the first node ends; 0: no node ends */
    double last_wait_begin;  /* the latest time, in seconds, at which a lane began to wait for the dead node */
    uint64_t messages;       /* sent by all ranks */
    uint64_t events;         /* events that the simulation handled */
    uint32_t stuck_nodes;    /* nodes that never end, not counting the dead one */
    uint32_t waits_for_dead; /* nodes with a lane that waits for a message of the dead node itself */
    uint32_t planes;         /* planes that were simulated: one for all, or as many as there are rails */
    bool is_one_for_all;     /* node 0 was simulated for all nodes */
    sim_traffic_t traffic[SIM_CLASSES];
} sim_result_t;

/*
 * Simulates a run and fills in the result. Returns false if memory runs out; the result is then incomplete, and the
 * caller prints the message.
 */
bool sim_simulate(const sim_run_t *run, sim_result_t *result);

/*
 * sim_symmetry.c: returns true if node 0 can be simulated for all nodes, because all nodes do the same at the same
 * time. Node 0 then receives the messages that it sends itself. If step i of node 0 sends a message, (*slots_p)[i] is
 * the slot in which this message arrives. The caller frees the array. *slots_p is NULL if the function returns false,
 * and also if it returns true but memory ran out.
 */
bool sim_is_symmetric(const sim_run_t *run, uint32_t **slots_p);

/* ---- sim_network.c ---- */

/* A message on its way. */
typedef struct {
    uint32_t from, to; /* nodes */
    double bytes;
    double end; /* when its last byte has left the last link that the message has passed so far, seconds */
} sim_message_t;

typedef struct sim_links sim_links_t;

/*
 * Creates the links of one plane in which `nodes` nodes are simulated. The links keep a pointer to `run`. `seed` starts
 * the generator of random delays and detours. Returns NULL if memory runs out.
 */
sim_links_t *sim_links_create(const sim_run_t *run, uint32_t nodes, uint64_t seed);
void sim_links_destroy(sim_links_t *links);

/*
 * Sends a message over the link of its sender, at `now` or as soon as the link is free. Returns the time at which the
 * link begins to carry the message.
 */
double sim_links_send(sim_links_t *links, sim_message_t *message, double now);

/* Draws the random delay of a message and returns it, in seconds. */
double sim_links_draw_delay(sim_links_t *links);

/*
 * Sends a message over the links between groups, if its nodes are in different groups. Returns the time at which its
 * first byte has passed them, which is `now` if there are no such links.
 */
double sim_links_cross_groups(sim_links_t *links, sim_message_t *message, double now);

/* Sends a message over the link of its receiver. Returns the time at which its last byte has arrived. */
double sim_links_receive(sim_links_t *links, sim_message_t *message, double now);

/* Adds the traffic of all links during `time` seconds to the result. Adds nothing if `time` is 0. */
void sim_links_add_traffic(const sim_links_t *links, double time, sim_result_t *result);

/* ---- sim_heap.c: a queue of events by time; events of one time keep the order in which they were added ---- */

typedef struct {
    double time;
    uint64_t number; /* counts the events in the order in which they are added */
    uint32_t kind;   /* an event kind of sim_run.c */
    uint32_t lane;   /* the lane that receives the message, or continues */
    uint32_t slot;   /* the slot in which the message arrives */
    sim_message_t message;
} sim_event_t;

typedef struct {
    sim_event_t *events;
    size_t count, capacity;
    uint64_t next_number; /* the number of the event that is added next */
} sim_heap_t;

/* Adds a copy of an event, and numbers it. Returns false if memory runs out. */
bool sim_heap_push(sim_heap_t *heap, const sim_event_t *event);
/* Removes the earliest event from the heap and stores it in *event. Returns false if the heap is empty. */
bool sim_heap_pop(sim_heap_t *heap, sim_event_t *event);

/* ---- sim_bound.c ---- */

/*
 * Returns the least time, in seconds, in which any schedule can reach all nodes from one node on this model of the
 * network. If the collective is a gather, this is the least time to collect data from all nodes. Returns 0 if memory
 * runs out or there is one node only.
 */
double sim_min_latency(const mscclpp_cost_figures_t *figures, int pattern, uint32_t nodes);

/* ---- Output ---- */

typedef struct {
    sim_run_t run;
    sim_result_t result;
    mscclpp_cost_bound_t bound;
    double min_latency; /* by sim_min_latency, seconds */
    double modelled;    /* by mscclpp_cost_estimate, seconds */
    bool is_preferred;  /* the cost model prefers this algorithm */
} sim_row_t;

/*
 * Returns the name of the collective with a pattern. Schedules identify a collective by its pattern, which is
 * MSCCLPP_SCHEDULE_ALLREDUCE or one of MSCCLPP_DEV_...
 */
const char *sim_pattern_name(int pattern);
/* Finds the pattern of a collective's name. Returns false if there is none. */
bool sim_pattern_find(const char *name, int *pattern_p);

/*
 * Print the heading of the table, and one row of the table. Neither these nor the following functions report errors:
 * callers check the stream with ferror.
 */
void sim_print_head(FILE *out);
void sim_print_row(FILE *out, const sim_row_t *row);
/* Prints a line about the traffic of each class that has links. */
void sim_print_traffic(FILE *out, const sim_row_t *row);
/* Prints all rows as a JSON array. */
void sim_print_json(FILE *out, const sim_row_t *rows, size_t count);
/* Draws all rows as SVG: time by bytes, time by nodes, and the links' traffic. */
void sim_draw(FILE *out, const sim_row_t *rows, size_t count);

#endif
