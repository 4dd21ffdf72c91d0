/* The commands of mscclpp_plan. */
#ifndef TOOLS_PLAN_PLAN_TOOL_H
#define TOOLS_PLAN_PLAN_TOOL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "mca/common/plan/check.h"
#include "mca/common/plan/trace.h"

/* Exit statuses. PLAN_REFUSED also stands for a file that cannot be read or written, and for lack of memory. */
enum { PLAN_OK = 0, PLAN_REFUSED = 1, PLAN_USAGE = 2 };

/* Parses a whole number from `min` to `max`. If the text is no such number, prints a message and returns false. */
bool plan_tool_number(const char *option, const char *text, uint64_t min, uint64_t max, uint64_t *number_p);

/*
 * Run a command. argv[0] is its name, and its arguments follow. Return the exit status, after a message if it is no
 * success. `bench` and `compile` end by replacing the process with the program that does the work. They return only if
 * nothing is to be started, or if it cannot be started.
 */
int plan_tool_bench(int argc, char **argv);
int plan_tool_check(int argc, char **argv);
int plan_tool_compile(int argc, char **argv);
int plan_tool_diff(int argc, char **argv);
int plan_tool_show(int argc, char **argv);

/* Reads a plan and checks it for static faults. The caller frees it. On failure prints why and returns NULL. */
mscclpp_plan_t *plan_tool_load(const char *path);

/* Returns a text that says what an operation of `rank` does. The plan has to come from plan_tool_load, whose checks
 * make the operation's indices valid. The caller frees the text. Returns NULL if memory runs out. */
char *plan_tool_describe(const mscclpp_plan_t *plan, uint32_t rank, const mscclpp_plan_op_t *op);

/* Prints three lines about the whole plan: what it is for, its sizes, and what rank 0 has. */
void plan_tool_head(FILE *out, const mscclpp_plan_t *plan);

/*
 * Draws what happened in `trace`, for a message of `bytes` bytes, into an SVG file. On failure prints why and returns
 * false.
 */
bool plan_tool_svg(const char *path, const mscclpp_plan_t *plan, const mscclpp_plan_trace_t *trace, uint64_t bytes);

#endif
