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

/*
 * Parses the value of an option, which has to be a whole number from `min` to `max`. If it is not, prints a message
 * that names `option`, and returns false without setting *number_p.
 */
bool plan_tool_number(const char *option, const char *text, uint64_t min, uint64_t max, uint64_t *number_p);

/*
 * Each of these functions runs one command. argv[0] is the name of the command, and its arguments follow. Each function
 * returns the exit status, and has printed a message if the status is not PLAN_OK. plan_tool_bench and
 * plan_tool_compile replace this process by the program that does the work. They return only if there is nothing to
 * start, or if the program cannot be started.
 */
int plan_tool_bench(int argc, char **argv);
int plan_tool_check(int argc, char **argv);
int plan_tool_compile(int argc, char **argv);
int plan_tool_diff(int argc, char **argv);
int plan_tool_show(int argc, char **argv);

/*
 * Reads a plan from a file and checks it for static faults. The caller frees the plan with mscclpp_plan_free. If the
 * file cannot be read, the plan has a fault or memory runs out, prints all findings on standard error and returns NULL.
 */
mscclpp_plan_t *plan_tool_load(const char *path);

/*
 * Returns a text that says what an operation of `rank` does. The plan has to come from plan_tool_load, which has
 * checked that all indices in the operation are valid. The caller frees the text. Returns NULL if memory runs out.
 */
char *plan_tool_describe(const mscclpp_plan_t *plan, uint32_t rank, const mscclpp_plan_op_t *op);

/*
 * Prints three lines about the whole plan: its purpose, its sizes, and what rank 0 has (chunks, blocks, channels and
 * semaphores).
 */
void plan_tool_print_head(FILE *out, const mscclpp_plan_t *plan);

/*
 * Draws the operations and messages of `trace`, for a message of `bytes` bytes, into an SVG file. If the file cannot be
 * written, prints the reason on standard error and returns false.
 */
bool plan_tool_svg(const char *path, const mscclpp_plan_t *plan, const mscclpp_plan_trace_t *trace, uint64_t bytes);

#endif
