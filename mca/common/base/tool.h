/* Debuggers and profilers that this process runs under, as far as their traces in it tell. */
#ifndef MCA_COMMON_BASE_TOOL_H
#define MCA_COMMON_BASE_TOOL_H

#include <stdbool.h>

/* True if one looks at kernels one by one, stops them, or waits for each to end. */
bool mscclpp_tool_traces_kernels(void);

/*
 * True if a launch of a kernel comes back only when the kernel has ended, by a setting or by a profiler that replays
 * it: then a kernel cannot wait for what the launching thread does next.
 */
bool mscclpp_tool_blocks_launches(void);

#endif
