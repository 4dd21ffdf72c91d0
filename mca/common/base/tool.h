/*
 * Determines whether this process runs under a debugger or a profiler, by the traces that such a tool leaves in the
 * process.
 */
#ifndef MCA_COMMON_BASE_TOOL_H
#define MCA_COMMON_BASE_TOOL_H

#include <stdbool.h>

/* Returns true if a tool inspects kernels one by one, stops them, or waits for each to end. */
bool mscclpp_tool_traces_kernels(void);

/*
 * Returns true if a launch returns only when its kernel has ended, because of a setting or because a profiler replays
 * the kernel. A kernel then cannot wait for later actions of the launching thread.
 */
bool mscclpp_tool_blocks_launches(void);

#endif
