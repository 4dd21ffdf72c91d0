#include <stdlib.h>

#include "mca/common/base/tool.h"
#include "test/unit/unit.h"

static void check(const char *name, const char *value, bool watches, bool blocks)
{
    setenv(name, value, 1);
    CHECK_EQ(mscclpp_tool_traces_kernels(), watches);
    CHECK_EQ(mscclpp_tool_blocks_launches(), blocks);
    unsetenv(name);
}

int main(void)
{
    unit_begin();
    /* Under a debugger or profiler there is nothing to compare with. */
    if (mscclpp_tool_traces_kernels()) {
        return unit_skip("a tool watches this test");
    }
    CHECK(!mscclpp_tool_blocks_launches());
    check("CUDA_LAUNCH_BLOCKING", "1", true, true);
    check("CUDA_LAUNCH_BLOCKING", "0", false, false);
    check("NV_COMPUTE_PROFILER_PERFWORKS_DIR", "/x", true, true);
    check("NV_NSIGHT_INJECTION_PORT_BASE", "49152", true, true);
    check("NV_SANITIZER_INJECTION_PORT_BASE", "49152", true, false);
    check("NSYS_PROFILING_SESSION_ID", "1", true, false);
    check("CUDA_VISIBLE_DEVICES", "0", false, false);
    return unit_end();
}
