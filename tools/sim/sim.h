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

/* One run. */
typedef struct {
    mscclpp_cost_figures_t figures;
    mscclpp_schedule_t schedule;
    uint32_t ranks; /* of a node */
    uint64_t bytes;
    uint64_t tile;  /* of a block, bytes */
    uint32_t lanes; /* blocks of the grid: tiles that a rank has under way */
    sim_network_kind_t network;
    uint32_t group;      /* nodes of a leaf switch or of a group */
    double taper;        /* bandwidth of a group's nodes to that of what leaves the group */
    double jitter;       /* mean of what each message is late by, seconds; exponentially distributed */
    uint32_t stragglers; /* nodes that begin late, */
    double late;         /* by so many seconds */
    int64_t dead;        /* node that dies, -1 for none, */
    uint64_t dead_step;  /* after so many steps of each of its lanes */
    uint64_t seed;
    bool whole; /* simulate all nodes, even if one is enough */
} sim_run_t;

/* Links of one class, in one direction. */
typedef enum { SIM_SENDING, SIM_RECEIVING, SIM_UP, SIM_DOWN, SIM_GLOBAL, SIM_CLASSES } sim_class_t;

extern const char *const sim_class_names[SIM_CLASSES];

typedef struct {
    uint64_t links;
    double least, mean, most; /* bytes */
    double busy;              /* share of the time for which the busiest link carries bytes */
} sim_traffic_t;

typedef struct {
    double time;     /* until the last node has ended, seconds; of a node that dies, until nothing moves any more */
    double first;    /* until the first node has ended; 0: none */
    double begun;    /* when the last of those nodes that wait for the dead one began to */
    uint64_t sent;   /* messages of all ranks */
    uint64_t events; /* of the simulation */
    uint32_t stuck;  /* nodes that do not end, without the dead one */
    uint32_t direct; /* of these, the ones that wait for a message of the dead node itself */
    uint32_t planes; /* that were simulated, of as many as there are rails */
    bool one;        /* one node stood for all of them */
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

/* Puts a message on its first link at the earliest from `now` on, and says when it leaves. */
double sim_links_send(sim_links_t *links, sim_message_t *message, double now);

/* A random delay of a message. */
double sim_links_jitter(sim_links_t *links);

/* Takes a message through what lies between two nodes, from `now` on; returns when its first byte has passed. */
double sim_links_pass(sim_links_t *links, sim_message_t *message, double now);

/* Its last link. Returns when its last byte has arrived. */
double sim_links_receive(sim_links_t *links, sim_message_t *message, double now);

/* Adds the links' traffic, in `time` seconds, to the result. */
void sim_links_count(const sim_links_t *links, double time, sim_result_t *result);

/* ---- sim_heap.c: events by time, those of one time in the order in which they were added ---- */

typedef struct {
    double time;
    uint64_t number; /* in the order in which events are added */
    uint32_t kind;   /* of sim_run.c */
    uint32_t lane;   /* that it is for, and the slot of its message there */
    uint32_t slot;
    sim_message_t message;
} sim_event_t;

typedef struct {
    sim_event_t *event;
    size_t count, room;
    uint64_t number;
} sim_heap_t;

bool sim_heap_add(sim_heap_t *heap, const sim_event_t *event);
bool sim_heap_take(sim_heap_t *heap, sim_event_t *event); /* false: empty */

/* ---- sim_bound.c ---- */

/* What no schedule can undercut in this model: the least time to reach all nodes, or to hear from all. Seconds. */
double sim_least_latency(const mscclpp_cost_figures_t *figures, int pattern, uint32_t nodes);

/* ---- Output ---- */

typedef struct {
    sim_run_t run;
    sim_result_t result;
    mscclpp_cost_bound_t bound;
    double least;    /* sim_least_latency */
    double modelled; /* mscclpp_cost_estimate */
    bool chosen;     /* by the model, among all that fit */
} sim_row_t;

const char *sim_pattern_name(int pattern);
bool sim_pattern_find(const char *name, int *pattern_p); /* false: there is none of that name */

void sim_print_head(FILE *out);
void sim_print_row(FILE *out, const sim_row_t *row);
void sim_print_traffic(FILE *out, const sim_row_t *row);
void sim_print_json(FILE *out, const sim_row_t *rows, size_t count);
void sim_draw(FILE *out, const sim_row_t *rows, size_t count);

#endif
