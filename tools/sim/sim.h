/* mscclpp_sim: discrete events over the schedules of mca/common/algo/schedule, and a model of the network. */
#ifndef TOOLS_SIM_SIM_H
#define TOOLS_SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "mca/common/algo/schedule/cost.h"
#include "mca/common/algo/schedule/schedule.h"

#define SIM_MAX_NODES 4096u
#define SIM_MAX_RANKS 64u

typedef enum { SIM_FULL, SIM_FAT_TREE, SIM_DRAGONFLY, SIM_NETWORKS } sim_network_kind_t;

extern const char *const sim_network_names[SIM_NETWORKS];

/* What one run simulates. */
typedef struct {
    mscclpp_cost_figures_t figures;
    mscclpp_schedule_t schedule;
    uint32_t ranks; /* of a node */
    uint64_t bytes; /* of the message, or of one rank's block */
    uint64_t tile;  /* bytes of a block that travel at once */
    uint32_t lanes; /* blocks of the grid, each of which works on one tile at a time */
    sim_network_kind_t network;
    uint32_t group;      /* nodes of a leaf switch or of a group */
    double taper;        /* bandwidth of a group's nodes, divided by that of its links to other groups */
    double jitter;       /* mean delay of a message, seconds; delays are exponentially distributed */
    uint32_t stragglers; /* how many nodes begin late */
    double late;         /* seconds by which these begin late */
    int64_t dead;        /* the node that dies; -1: none */
    uint64_t dead_step;  /* steps of each lane after which it dies */
    uint64_t seed;
    bool whole; /* simulate all nodes, even if one is enough */
} sim_run_t;

/* Classes of links: of nodes, between leaf switches and the core, between groups of a dragonfly. */
typedef enum { SIM_SENDING, SIM_RECEIVING, SIM_UP, SIM_DOWN, SIM_GLOBAL, SIM_CLASSES } sim_class_t;

extern const char *const sim_class_names[SIM_CLASSES];

/* What the links of one class carried. */
typedef struct {
    uint64_t links;
    double least, mean, most; /* bytes */
    double busy;              /* share of the time in which the busiest link carries bytes */
} sim_traffic_t;

typedef struct {
    double time;     /* seconds until the last node ends; if a node dies, until nothing moves any more */
    double first;    /* seconds until the first node ends; 0: none does */
    double begun;    /* when the last node that waits for the dead one began to wait */
    uint64_t sent;   /* messages that all ranks sent */
    uint64_t events; /* of the simulation */
    uint32_t stuck;  /* nodes that never end, without the dead one */
    uint32_t direct; /* those of them that wait for a message of the dead node itself */
    uint32_t planes; /* planes that were simulated; there are as many as rails */
    bool one;        /* one node was simulated for all */
    sim_traffic_t traffic[SIM_CLASSES];
} sim_result_t;

/* Simulates a run. False without memory. */
bool sim_simulate(const sim_run_t *run, sim_result_t *result);

/*
 * sim_symmetry.c: true if all nodes do the same at the same time, and each receives what it sends itself, at the same
 * place of the list: so one node stands for all. `receives[i]` is then the slot in which the message of step i arrives,
 * for steps that send; the caller frees it.
 */
bool sim_is_symmetric(const sim_run_t *run, uint32_t **receives_p);

/* ---- sim_network.c ---- */

/* A message on its way. */
typedef struct {
    uint32_t from, to; /* nodes */
    double bytes;
    double end; /* when its last byte has left what it has passed so far */
} sim_message_t;

typedef struct sim_links sim_links_t;

/* The links of one plane; `nodes` of them are simulated. NULL without memory. */
sim_links_t *sim_links_create(const sim_run_t *run, uint32_t nodes, uint64_t seed);
void sim_links_destroy(sim_links_t *links);

/* Puts a message on its first link, at `now` or once the link is free. Returns when it begins to be sent. */
double sim_links_send(sim_links_t *links, sim_message_t *message, double now);

/* Draws the random delay of a message, seconds. */
double sim_links_jitter(sim_links_t *links);

/* Takes a message over the links between two nodes, from `now` on. Returns when its first byte has passed them. */
double sim_links_pass(sim_links_t *links, sim_message_t *message, double now);

/* Takes a message over its last link. Returns when its last byte has arrived. */
double sim_links_receive(sim_links_t *links, sim_message_t *message, double now);

/* Adds the links' traffic, in `time` seconds, to the result. */
void sim_links_count(const sim_links_t *links, double time, sim_result_t *result);

/* ---- sim_heap.c: a queue of events by time; events of one time keep the order in which they were added ---- */

typedef struct {
    double time;
    uint64_t number; /* counts the events in the order in which they are added */
    uint32_t kind;   /* of sim_run.c */
    uint32_t lane;   /* the lane that it is for */
    uint32_t slot;   /* where the lane awaits the message */
    sim_message_t message;
} sim_event_t;

typedef struct {
    sim_event_t *event;
    size_t count, room;
    uint64_t number;
} sim_heap_t;

/* Adds an event. False without memory. */
bool sim_heap_add(sim_heap_t *heap, const sim_event_t *event);
/* Takes the earliest event out. False if there is none. */
bool sim_heap_take(sim_heap_t *heap, sim_event_t *event);

/* ---- sim_bound.c ---- */

/* The least time, in seconds, in which any schedule reaches all nodes, or hears from all, in this model. */
double sim_least_latency(const mscclpp_cost_figures_t *figures, int pattern, uint32_t nodes);

/* ---- Output ---- */

typedef struct {
    sim_run_t run;
    sim_result_t result;
    mscclpp_cost_bound_t bound;
    double least;    /* sim_least_latency */
    double modelled; /* mscclpp_cost_estimate */
    bool chosen;     /* the cost model prefers it */
} sim_row_t;

const char *sim_pattern_name(int pattern);
/* Finds the collective of a name. False if there is none. */
bool sim_pattern_find(const char *name, int *pattern_p);

void sim_print_head(FILE *out);
void sim_print_row(FILE *out, const sim_row_t *row);
void sim_print_traffic(FILE *out, const sim_row_t *row);
void sim_print_json(FILE *out, const sim_row_t *rows, size_t count);
void sim_draw(FILE *out, const sim_row_t *rows, size_t count);

#endif
