/*
 * The exchange that mscclpp_bench gives to the host library: it gathers what all ranks send, and fails on all of them
 * if one has no memory for the answers.
 */
#include <string.h>

#include "test/mpi/mpi_test.h"
#include "tools/bench/bench.h"

const char bench_program[] = "test_bench_oob";

#define RANKS_MAX 64

/* One all-gather. Rank `lacking`, if it exists, has no memory. */
static void gather(const mscclpp_oob_t *oob, int lacking)
{
    const mscclpp_status_t expected = lacking < mt_size ? MSCCLPP_ERR_NOT_SUPPORTED : MSCCLPP_OK;
    const int own = 100 + mt_rank;
    int all[RANKS_MAX] = {0};
    mscclpp_status_t status =
        oob->allgather(oob->context, lacking == mt_rank ? NULL : &own, lacking == mt_rank ? NULL : all, sizeof(own));

    MT_CHECK(status == expected, "rank %d lacks memory: status %d, not %d", lacking, (int)status, (int)expected);
    for (int rank = 0; rank < mt_size && status == MSCCLPP_OK; ++rank) {
        MT_CHECK(all[rank] == 100 + rank, "rank %d sent %d", rank, all[rank]);
    }
}

int main(int argc, char **argv)
{
    MPI_Comm comm = MPI_COMM_WORLD;
    mscclpp_oob_t oob;

    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    if (mt_size > RANKS_MAX) {
        fprintf(stderr, "test_bench_oob: more than %d ranks\n", RANKS_MAX);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    oob = bench_oob(&comm);
    for (int lacking = 0; lacking <= mt_size; ++lacking) {
        gather(&oob, lacking);
    }
    return mt_finish();
}
