/* The MPI error codes of queued calls, of ends that this library knows and of those of a newer component. */
#include <limits.h>

#include "mpix/include/mpix_mscclpp.h"
#include "mpix/internal.h"
#include "test/mpi/mpi_test.h"

/* There is no component here. */
const mca_coll_mscclpp_api_t *mpix_component(int *code_p)
{
    *code_p = MPI_SUCCESS;
    return NULL;
}

static void check(const char *what, mca_coll_mscclpp_queue_end_t end, int expected)
{
    const int code = mpix_code_of(end, MPI_ERR_OTHER);

    MT_CHECK(code == expected, "%s yields code %d, not %d", what, code, expected);
}

int main(int argc, char **argv)
{
    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    check("a queued call", MCA_COLL_MSCCLPP_QUEUED, MPI_SUCCESS);
    check("a call that is not queued", MCA_COLL_MSCCLPP_NOT_QUEUED, MPI_SUCCESS);
    check("a timeout", MCA_COLL_MSCCLPP_QUEUE_TIMEOUT, mpix_error_code(MPIX_MSCCLPP_ERR_TIMEOUT));
    check("a failed peer", MCA_COLL_MSCCLPP_QUEUE_PEER, mpix_error_code(MPIX_MSCCLPP_ERR_PEER));
    check("two calls at once", MCA_COLL_MSCCLPP_QUEUE_BUSY, mpix_error_code(MPIX_MSCCLPP_ERR_BUSY));
    check("another error", MCA_COLL_MSCCLPP_QUEUE_ERROR, MPI_ERR_OTHER);
    check("an unknown end", (mca_coll_mscclpp_queue_end_t)INT_MAX, MPI_ERR_INTERN);
    return mt_finish();
}
