/* Functions and types that the files of mscclpp_synth share. */
#ifndef TOOLS_SYNTH_SYNTH_TOOL_H
#define TOOLS_SYNTH_SYNTH_TOOL_H

#include <stdbool.h>
#include <stdio.h>

#include "tools/synth/lib/ranges.h"

enum { SYNTH_TOOL_OK = 0, SYNTH_TOOL_FAILED = 1, SYNTH_TOOL_USAGE = 2 };

/* Prints a text as a JSON string, in quotes. */
void synth_tool_string(FILE *out, const char *text);

/*
 * Prints a summary of the topology, and for each collective the lower bounds of steps and of rounds for each chunk. The
 * bounds take at most about `seconds`.
 */
void synth_tool_bounds(FILE *out, const synth_topology_t *topology, int root, double seconds, bool json);

/* Prints the front, as a table or as JSON. `seconds` is the time that the search took. */
void synth_tool_front(FILE *out, const synth_topology_t *topology, synth_collective_t collective,
                      const synth_options_t *options, const synth_front_t *front, double seconds, bool json);

/* Prints in words what each rank sends in each step, for all schedules of the front. */
void synth_tool_steps(FILE *out, const synth_front_t *front);

/* Options for making plans, from the command line. */
typedef struct {
    int instances;        /* blocks of each rank that share the work */
    bool in_place;        /* plans are for calls whose input and output are one buffer */
    char gpus_suffix[16]; /* end of a plan's name that identifies the GPUs for which it is made; empty: any GPUs */
} synth_plan_options_t;

/*
 * Writes the topology, the front (as JSON) and the plans of its points to a folder, and names each plan in `messages`.
 * The folder is made if it does not exist. A plan that is not proven is not written, and its sizes are given to another
 * plan; the other plans and the rules are still written. If the folder, the topology or the front cannot be written, no
 * plan is written. Returns false after a message on standard error if anything failed. `seconds` is the time that the
 * search took.
 */
bool synth_tool_save(const char *folder, const synth_topology_t *topology, synth_collective_t collective,
                     const synth_options_t *options, const synth_front_t *front, double seconds,
                     const synth_plan_options_t *plan_options, FILE *messages);

/*
 * Composes the plan's name from characters that are allowed in every rules file. Its parts are: collective, ranks,
 * chunks, steps, rounds, manner, "in_place" for plans in place, and the suffix for the GPUs.
 */
void synth_tool_plan_name(const synth_candidate_t *candidate, const synth_plan_options_t *plan_options, char *name,
                          size_t size);

/*
 * Writes the file `rules` of a folder of plans, which tells which plan serves which sizes, with the costs of the model
 * in comments. Rules of earlier runs for other calls are kept. The new file replaces the old one only when it is
 * complete. Does nothing for collectives for which there are no rules. If the file cannot be written, prints a message
 * on standard error and returns false.
 */
bool synth_tool_rules(const char *folder, const synth_candidate_t *candidates, int count,
                      const synth_plan_options_t *plan_options);

/*
 * Draws a picture of the topology and, if the front is not NULL, of its schedules step by step. If the file cannot be
 * written, prints a message on standard error and returns false.
 */
bool synth_tool_svg(const char *path, const synth_topology_t *topology, const synth_front_t *front);

#endif
