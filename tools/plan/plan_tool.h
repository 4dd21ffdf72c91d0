/* The commands of mscclpp_plan. */
#ifndef TOOLS_PLAN_PLAN_TOOL_H
#define TOOLS_PLAN_PLAN_TOOL_H

#include <stdbool.h>
#include <stdint.h>

enum { PLAN_OK = 0, PLAN_REFUSED = 1, PLAN_USAGE = 2 };

/* False after it has complained of a value. */
bool plan_tool_number(const char *option, const char *text, uint64_t least, uint64_t most, uint64_t *number_p);

/* Each gets what follows its name on the command line and returns the exit status. */
int plan_tool_check(int argc, char **argv);

#endif
