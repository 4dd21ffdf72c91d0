/* The commands of mscclpp_plan. */
#ifndef TOOLS_PLAN_PLAN_TOOL_H
#define TOOLS_PLAN_PLAN_TOOL_H

enum { PLAN_OK = 0, PLAN_REFUSED = 1, PLAN_USAGE = 2 };

/* Each gets what follows its name on the command line and returns the exit status. */
int plan_tool_check(int argc, char **argv);

#endif
