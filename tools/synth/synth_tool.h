/* The parts of mscclpp_synth. */
#ifndef TOOLS_SYNTH_SYNTH_TOOL_H
#define TOOLS_SYNTH_SYNTH_TOOL_H

#include <stdbool.h>
#include <stdio.h>

#include "tools/synth/lib/ranges.h"

enum { SYNTH_TOOL_OK = 0, SYNTH_TOOL_FAILED = 1, SYNTH_TOOL_USAGE = 2 };

/* Prints a text as a JSON string, in quotes. */
void synth_tool_string(FILE *out, const char *text);

/* Prints a summary of the topology, and for each collective the lower bounds of steps and of rounds per chunk. */
void synth_tool_bounds(FILE *out, const synth_topology_t *topology, int root, double seconds, bool json);

/* Prints the front, as a table or as JSON. */
void synth_tool_front(FILE *out, const synth_topology_t *topology, synth_collective_t collective,
                      const synth_options_t *options, const synth_front_t *front, double seconds, bool json);

/* Prints what each rank sends in each step, in words. */
void synth_tool_steps(FILE *out, const synth_front_t *front);

/* How plans are made. */
typedef struct {
    int instances; /* blocks of each rank that share the work */
    bool in_place;
    char gpus_suffix[16]; /* end of a plan's name that stands for the GPUs it is made for; empty: for any GPUs */
} synth_making_t;

/*
 * Writes the front as JSON and the plan of each point to a folder, which is made if it is not there, and says so. A
 * plan that is not proven is not written. False if anything failed, after a message.
 */
bool synth_tool_save(const char *folder, const synth_topology_t *topology, synth_collective_t collective,
                     const synth_options_t *options, const synth_front_t *front, double seconds,
                     const synth_making_t *making, FILE *messages);

/* The plan's name, in letters that every rules file takes: collective, ranks, chunks, steps, rounds, kind. */
void synth_tool_plan_name(const synth_candidate_t *candidate, const synth_making_t *making, char *name, size_t size);

/*
 * Writes the file `rules` of a folder of plans, or what this run has to say in it: which plan serves which sizes, with
 * the costs of the model in a comment. False after a message.
 */
bool synth_tool_rules(const char *folder, const synth_candidate_t *candidates, int count, const synth_making_t *making);

/* The topology and, if there is a front, its schedules step by step as a picture. False after a message. */
bool synth_tool_svg(const char *path, const synth_topology_t *topology, const synth_front_t *front);

#endif
