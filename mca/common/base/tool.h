/* Finds out whether this process runs under a debugger or a profiler, by the traces that it leaves in the process. */
#ifndef MCA_COMMON_BASE_TOOL_H
#define MCA_COMMON_BASE_TOOL_H

#include <stdbool.h>

/* True if a tool looks at kernels one by one, stops them, or waits for each to end. */
bool mscclpp_tool_traces_kernels(void);

/*
 * True if a launch returns only when its kernel has ended, because of a setting or because a profiler replays the
 * kernel. A kernel then cannot wait for what the launching thread does next.
 */
bool mscclpp_tool_blocks_launches(void);

#endif
