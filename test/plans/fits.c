/* Prints of each plan why ranks on GPUs, and ranks on the host twin, cannot use it. Usage: fits FILE... */
#include <stdio.h>

#include "mca/common/plan/library.h"

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; ++i) {
        mscclpp_plan_library_t *library = mscclpp_plan_library_create(argv[i]);
        mscclpp_plan_file_t *file = NULL;

        if (mscclpp_plan_library_load(library, &file) == 1 && file->plan != NULL && file->refusal == NULL) {
            for (int on_twin = 0; on_twin < 2; ++on_twin) {
                const char *reason = mscclpp_plan_library_misfit(file, on_twin != 0);

                printf("%s: %s: %s\n", argv[i], on_twin != 0 ? "twin" : "GPUs", reason != NULL ? reason : "fits");
            }
        } else {
            printf("%s: refused\n", argv[i]);
        }
        mscclpp_plan_library_destroy(library);
    }
    return 0;
}
