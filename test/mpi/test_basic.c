/*
 * A little of everything, for the ways to select components. Usage: test_basic served|idle|absent: whether the
 * component must serve all-reduce, must leave it alone (whether Open MPI keeps it or not), or must not be there. Only
 * host memory is used where it does not serve.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/mpi/mpi_test.h"
#include "test/mpi/mpi_types.h"

static bool component_exists(void)
{
    int index, provided;
    bool exists;

    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    exists = MPI_SUCCESS == MPI_T_cvar_get_index("coll_mscclpp_priority", &index);
    MPI_T_finalize();
    return exists;
}

static void others(mt_kind_t kind)
{
    int *values = mt_host_alloc(sizeof(int) * (size_t)mt_size), value = mt_rank;
    mt_buffer_t one = mt_buffer_alloc(kind, sizeof(int), 0);
    mt_buffer_t all = mt_buffer_alloc(kind, sizeof(int) * (size_t)mt_size, 0);
    MPI_Request request;

    mt_buffer_put(&one, &value, sizeof(value));
    MT_MPI(MPI_Iallreduce(one.data, all.data, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request));
    MT_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
    mt_buffer_get(&all, &value, sizeof(value));
    MT_CHECK(mt_size * (mt_size - 1) / 2 == value, "MPI_Iallreduce: %d", value);
    MT_MPI(MPI_Allgather(one.data, 1, MPI_INT, all.data, 1, MPI_INT, MPI_COMM_WORLD));
    mt_buffer_get(&all, values, sizeof(int) * (size_t)mt_size);
    for (int i = 0; i < mt_size; ++i) {
        MT_CHECK(i == values[i], "MPI_Allgather: element %d is %d", i, values[i]);
    }
    MT_MPI(MPI_Bcast(one.data, 1, MPI_INT, mt_size - 1, MPI_COMM_WORLD));
    mt_buffer_get(&one, &value, sizeof(value));
    MT_CHECK(mt_size - 1 == value, "MPI_Bcast: %d", value);
    MT_MPI(MPI_Barrier(MPI_COMM_WORLD));
    mt_buffer_free(&one, "buffer of one");
    mt_buffer_free(&all, "buffer of all");
    free(values);
}

int main(int argc, char **argv)
{
    bool serves = argc > 1 && 0 == strcmp(argv[1], "served");
    bool absent = argc > 1 && 0 == strcmp(argv[1], "absent");
    bool exists;
    mt_kind_t kind = serves ? MT_DEVICE : MT_HOST;
    MPI_Comm comms[3] = {MPI_COMM_WORLD, MPI_COMM_SELF, MPI_COMM_NULL};

    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    exists = component_exists();
    MT_CHECK(!serves || exists, "the component is missing");
    MT_CHECK(!absent || !exists, "the component is there");
    MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comms[2]));
    for (int i = 0; i < 3; ++i) {
        uint64_t before = exists ? mt_served(MPI_COMM_WORLD) : 0;
        mt_call_t call = mt_call(comms[i], 1000, i);
        call.send_kind = call.recv_kind = kind;
        mt_verify(&call);
        if (exists) {
            MT_CHECK(before + (serves ? 1 : 0) == mt_served(MPI_COMM_WORLD), "communicator %d: %llu calls served", i,
                     (unsigned long long)(mt_served(MPI_COMM_WORLD) - before));
        }
    }
    others(kind);
    MT_MPI(MPI_Comm_free(&comms[2]));
    return mt_finish();
}
