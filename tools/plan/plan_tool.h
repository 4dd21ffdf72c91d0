/* The commands of mscclpp_plan. */
#ifndef TOOLS_PLAN_PLAN_TOOL_H
#define TOOLS_PLAN_PLAN_TOOL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "mca/common/plan/check.h"
#include "mca/common/plan/trace.h"

enum { PLAN_OK = 0, PLAN_REFUSED = 1, PLAN_USAGE = 2 };

/* False after it has complained of a value. */
bool plan_tool_number(const char *option, const char *text, uint64_t least, uint64_t most, uint64_t *number_p);

/* Each gets what follows its name on the command line and returns the exit status. */
int plan_tool_check(int argc, char **argv);
int plan_tool_diff(int argc, char **argv);
int plan_tool_show(int argc, char **argv);

/* Read and without static faults; NULL after it has said why not. */
mscclpp_plan_t *plan_tool_load(const char *path);

/* What an operation does, for the caller to free; NULL if there is no memory. */
char *plan_tool_describe(const mscclpp_plan_t *plan, uint32_t rank, const mscclpp_plan_op_t *op);

/* A few lines about the whole plan. */
void plan_tool_head(FILE *out, const mscclpp_plan_t *plan);

/* False after it has said why the picture cannot be written. */
bool plan_tool_svg(const char *path, const mscclpp_plan_t *plan, const mscclpp_plan_trace_t *trace, uint64_t bytes);

#endif
