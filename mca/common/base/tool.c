#include "mca/common/base/tool.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

extern char **environ;

/*
 * How tools are recognised: by the beginnings of environment entries that they set in the programs that they start. The
 * tools are compute-sanitizer, Nsight Compute (which shares NV_NSIGHT_INJECTION with the graphics debugger), Nsight
 * Systems and nvprof. cuda-gdb sets nothing that lasts, but traces the process.
 */
static const struct {
    const char *beginning; /* of an environment entry, NAME=VALUE */
    bool blocks_launches;  /* the tool makes each launch wait for its kernel */
} traces[] = {
    {"CUDA_INJECTION64_PATH=", false},     {"CUDA_LAUNCH_BLOCKING=1", true},   {"CUDBG_", false},
    {"NSYS_PROFILING_SESSION_ID=", false}, {"NV_COMPUTE_PROFILER_", true},     {"NV_CUDA_START_SUSPENDED=1", false},
    {"NV_NSIGHT_INJECTION_", true},        {"NV_SANITIZER_INJECTION_", false}, {"NVPROF_ID=", true},
};

/* Returns true if another process traces this process, as debuggers do. */
static bool is_traced(void)
{
    FILE *status = fopen("/proc/self/status", "re");
    bool has_tracer = false;
    char line[128];

    while (status != NULL && fgets(line, sizeof(line), status) != NULL) {
        long tracer;

        if (sscanf(line, "TracerPid: %ld", &tracer) == 1) {
            has_tracer = tracer != 0;
            break;
        }
    }
    if (status != NULL) {
        fclose(status);
    }
    return has_tracer;
}

/*
 * Returns true if the environment contains an entry that a tool sets. With `only_blocking`, considers only tools that
 * make launches wait for kernels.
 */
static bool has_trace(bool only_blocking)
{
    for (char **entry = environ; entry != NULL && *entry != NULL; ++entry) {
        for (size_t i = 0; i < sizeof(traces) / sizeof(traces[0]); ++i) {
            if ((traces[i].blocks_launches || !only_blocking) &&
                strncmp(*entry, traces[i].beginning, strlen(traces[i].beginning)) == 0) {
                return true;
            }
        }
    }
    return false;
}

bool mscclpp_tool_traces_kernels(void)
{
    return has_trace(false) || is_traced();
}

bool mscclpp_tool_blocks_launches(void)
{
    return has_trace(true);
}
