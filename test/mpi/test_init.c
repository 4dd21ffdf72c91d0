/*
 * What MPI_Init loads. Usage: test_init; prints how many ranks have UCX in memory behind it.
 */
#include <link.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static int find_ucx(struct dl_phdr_info *info, size_t size, void *found)
{
    (void)size;
    *(bool *)found |= strstr(info->dlpi_name, "/libucp") != NULL;
    return 0;
}

int main(int argc, char **argv)
{
    int rank, size, mine, count;
    bool found = false;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    dl_iterate_phdr(find_ucx, &found);
    mine = found;
    MPI_Reduce(&mine, &count, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("UCX: loaded by %d of %d ranks\n", count, size);
    }
    MPI_Finalize();
    return 0;
}
