/*
 * MPI_Finalize deletes the attributes of MPI_COMM_SELF first of all, and their callbacks may still communicate. All
 * ranks' calls go the same way then, although some have used device buffers before they set the attribute, and others
 * after.
 */
#include "test/mpi/mpi_test.h"
#include "test/mpi/mpi_types.h"

static int callbacks;

static int finalizing(MPI_Comm comm, int key, void *value, void *state)
{
    mt_call_t call = mt_call(MPI_COMM_WORLD, 1000, 3);

    (void)comm;
    (void)key;
    (void)value;
    (void)state;
    mt_verify(&call);
    ++callbacks;
    return MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    mt_call_t call;
    MPI_Comm some;
    int key;

    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    if (mt_too_small(2)) {
        MPI_Finalize();
        return MT_SKIPPED;
    }
    MT_MPI(MPI_Comm_split(MPI_COMM_WORLD, 0 == mt_rank, 0, &some));
    if (0 != mt_rank) {
        call = mt_call(some, 1000, 1);
        mt_verify(&call);
    }
    MT_MPI(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, finalizing, &key, NULL));
    MT_MPI(MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL));
    call = mt_call(MPI_COMM_WORLD, 1000, 2);
    mt_verify(&call);
    MT_MPI(MPI_Comm_free(&some));
    MPI_Finalize();
    return 0 == mt_failures() && 1 == callbacks ? 0 : 1;
}
