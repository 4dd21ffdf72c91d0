#include "mca/coll/mscclpp/coll_mscclpp.h"

#include <stdlib.h>

#include "mca/common/log.h"

static bool is_host(const void *address)
{
    (void)address;
    return true;
}

void mca_coll_mscclpp_twin_hide_buffers(int rank)
{
    const char *list = mca_coll_mscclpp_component.config.twin_host_ranks;
    char **ranks;

    if (mca_coll_mscclpp_component.gpu != &mscclpp_gpu_host_ops) {
        return;
    }
    mscclpp_gpu_host_set_filter(NULL);
    ranks = opal_argv_split(list, ',');
    for (char **text = ranks; NULL != text && NULL != *text; ++text) {
        char *end;
        long value = strtol(*text, &end, 10);
        if (end == *text || '\0' != *end || value < 0) {
            mscclpp_error("parameter twin_host_ranks: \"%s\" is not allowed; use ranks of MPI_COMM_WORLD, separated by "
                          "commas",
                          *text);
        } else if (value == rank) {
            mscclpp_gpu_host_set_filter(is_host);
        }
    }
    opal_argv_free(ranks);
}
