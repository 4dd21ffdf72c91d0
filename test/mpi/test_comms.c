/* Every way to make a communicator, several alive at once, overlapping ones, inter-communicators, spawned processes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/mpi/mpi_test.h"
#include "test/mpi/mpi_types.h"

/* Small and large, in place and not, all by kernels. */
static void use(MPI_Comm comm, int seed)
{
    static const int counts[] = {1, 100, 30000};
    uint64_t served = mt_served(comm);

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); ++i) {
        mt_call_t call = mt_call(comm, counts[i], seed + (int)i);
        mt_verify(&call);
        call.in_place = true;
        mt_verify(&call);
    }
    served = mt_served(comm) - served;
    MT_CHECK(6 == served, "kernels served %llu of 6 calls", (unsigned long long)served);
}

/* Uses a communicator, if this rank has it, and frees it. */
static void use_and_free(MPI_Comm *comm, const char *what, int seed)
{
    int before = mt_failures();

    if (MPI_COMM_NULL != *comm) {
        use(*comm, seed);
        MT_MPI(MPI_Comm_free(comm));
    }
    MT_CHECK(before == mt_failures(), "the failures above are those of %s", what);
}

/* Communicators by MPI_Comm_dup and its relatives. */
static void derived(void)
{
    MPI_Comm comm, again;
    MPI_Request request;

    MT_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    MT_MPI(MPI_Comm_dup(comm, &again));
    use_and_free(&comm, "a duplicate", 1);
    use_and_free(&again, "a duplicate of a freed duplicate", 2);
    MT_MPI(MPI_Comm_split(MPI_COMM_WORLD, 0, -mt_rank, &comm));
    use_and_free(&comm, "a split in reversed order", 3);
    MT_MPI(MPI_Comm_split(MPI_COMM_WORLD, mt_rank % 2, mt_rank, &comm));
    use_and_free(&comm, "a split in two", 4);
    MT_MPI(MPI_Comm_split(MPI_COMM_WORLD, 0 == mt_rank ? MPI_UNDEFINED : 1, 0, &comm));
    use_and_free(&comm, "a split without rank 0", 5);
    MT_MPI(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comm));
    use_and_free(&comm, "a split by node", 6);
    MT_MPI(MPI_Comm_idup(MPI_COMM_WORLD, &comm, &request));
    use(MPI_COMM_WORLD, 7); /* while the duplicate is being made */
    MT_MPI(MPI_Wait(&request, MPI_STATUS_IGNORE));
    use_and_free(&comm, "an idup", 8);
    use(MPI_COMM_SELF, 9);
    MT_MPI(MPI_Comm_dup(MPI_COMM_SELF, &comm));
    use_and_free(&comm, "a duplicate of MPI_COMM_SELF", 10);
}

/* Communicators of groups. */
static void from_groups(void)
{
    MPI_Group world, most;
    MPI_Comm comm = MPI_COMM_NULL;
    int last = mt_size - 1;

    MT_MPI(MPI_Comm_group(MPI_COMM_WORLD, &world));
    MT_MPI(MPI_Group_excl(world, mt_size > 1 ? 1 : 0, &last, &most));
    MT_MPI(MPI_Comm_create(MPI_COMM_WORLD, most, &comm));
    use_and_free(&comm, "MPI_Comm_create", 20);
    if (mt_rank != last || 1 == mt_size) {
        MT_MPI(MPI_Comm_create_group(MPI_COMM_WORLD, most, 5, &comm));
        use_and_free(&comm, "MPI_Comm_create_group", 21);
    }
    MT_MPI(MPI_Group_free(&most));
    MT_MPI(MPI_Group_free(&world));
}

/* Topologies reorder nothing here, but their communicators have slots of their own. */
static void topologies(void)
{
    int dims[1] = {mt_size}, periods[1] = {1};
    MPI_Comm comm;

    MT_MPI(MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &comm));
    use_and_free(&comm, "a Cartesian topology", 25);
}

/* In an all-reduce on an inter-communicator each group receives the combination of the other one's operands. */
static void use_intercomm(MPI_Comm comm, int low, int count)
{
    size_t bytes = sizeof(int) * (size_t)count;
    int *values = mt_host_alloc(bytes), local_rank, remote_size;
    mt_buffer_t send = mt_buffer_alloc(MT_DEVICE, bytes, 0), recv = mt_buffer_alloc(MT_DEVICE, bytes, 0);

    MPI_Comm_rank(comm, &local_rank);
    MPI_Comm_remote_size(comm, &remote_size);
    for (int i = 0; i < count; ++i) {
        values[i] = (low ? 1000 : 1) * (local_rank + 1) + i;
    }
    mt_buffer_put(&send, values, bytes);
    MT_MPI(MPI_Allreduce(send.data, recv.data, count, MPI_INT, MPI_SUM, comm));
    mt_buffer_get(&recv, values, bytes);
    for (int i = 0; i < count; ++i) {
        int expected = 0;
        for (int rank = 0; rank < remote_size; ++rank) {
            expected += (low ? 1 : 1000) * (rank + 1) + i;
        }
        MT_CHECK(expected == values[i], "inter-communicator: element %d is %d and not %d", i, values[i], expected);
    }
    mt_buffer_free(&send, "send buffer of an inter-communicator");
    mt_buffer_free(&recv, "receive buffer of an inter-communicator");
    free(values);
}

/* An inter-communicator and what it is merged to. */
static void intercomm(void)
{
    MPI_Comm local, inter, merged;
    int low = mt_rank < (mt_size + 1) / 2;

    if (mt_size < 2) {
        return;
    }
    MT_MPI(MPI_Comm_split(MPI_COMM_WORLD, low, mt_rank, &local));
    MT_MPI(MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, low ? (mt_size + 1) / 2 : 0, 6, &inter));
    use(local, 30);
    use_intercomm(inter, low, 1);
    use_intercomm(inter, low, 5000);
    MT_MPI(MPI_Intercomm_merge(inter, !low, &merged));
    use_and_free(&merged, "a merged inter-communicator", 31);
    use_intercomm(inter, low, 3);
    MT_MPI(MPI_Comm_free(&inter));
    use_and_free(&local, "a group of an inter-communicator", 32);
}

/*
 * A ring of communicators of two neighbours each. The even ranks use the one on their right first, the odd ranks the
 * one on their left: each rank has an order of its own, and all are legal together.
 */
static void ring(void)
{
    MPI_Comm *edges = mt_host_alloc(sizeof(MPI_Comm) * (size_t)mt_size);
    int left = (mt_rank + mt_size - 1) % mt_size;

    if (mt_size < 2 || 0 != mt_size % 2) {
        free(edges);
        return;
    }
    for (int i = 0; i < mt_size; ++i) {
        bool member = mt_rank == i || mt_rank == (i + 1) % mt_size;
        MT_MPI(MPI_Comm_split(MPI_COMM_WORLD, member ? 0 : MPI_UNDEFINED, mt_rank, &edges[i]));
    }
    for (int round = 0; round < 10; ++round) {
        int first = mt_rank % 2 ? left : mt_rank, second = mt_rank % 2 ? mt_rank : left;
        use(edges[first], 100 * round);
        use(edges[second], 100 * round + 50);
        if (0 == round % 4) {
            use(MPI_COMM_WORLD, round);
        }
    }
    /* The freeing order differs from rank to rank too, as far as it is legal. */
    for (int i = 0; i < mt_size; ++i) {
        if (MPI_COMM_NULL != edges[i]) {
            MT_MPI(MPI_Comm_free(&edges[i]));
        }
    }
    free(edges);
}

#define ALIVE 24

/* Many alive at once, in an order that changes from round to round and is the same on all ranks. */
static void alive_at_once(void)
{
    MPI_Comm comms[ALIVE];

    for (int i = 0; i < ALIVE; ++i) {
        MT_MPI(MPI_Comm_split(MPI_COMM_WORLD, 0, i % 2 ? mt_rank : -mt_rank, &comms[i]));
    }
    for (int round = 0; round < 3; ++round) {
        for (int i = 0; i < ALIVE; ++i) {
            mt_call_t call = mt_call(comms[(i * 7 + round * 5) % ALIVE], 200 + i, round * ALIVE + i);
            mt_verify(&call);
        }
    }
    for (int i = 0; i < ALIVE; ++i) {
        int next = i * 5 % ALIVE;
        MT_MPI(MPI_Comm_free(&comms[next]));
    }
}

#define CHILDREN 2

/* Spawns processes and uses the communicators with them. */
static void spawn(const char *program)
{
    MPI_Comm inter, merged;
    char child[] = "--child";
    char *arguments[] = {child, NULL};
    int errors[CHILDREN];

    MT_MPI(MPI_Comm_spawn(program, arguments, CHILDREN, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, errors));
    use_intercomm(inter, 1, 100);
    MT_MPI(MPI_Intercomm_merge(inter, 0, &merged));
    use_and_free(&merged, "parents and spawned processes merged", 40);
    use(MPI_COMM_WORLD, 60);
    /* Last, since Open MPI's TCP can take the end of a process that it is disconnected from for an error. */
    MT_MPI(MPI_Comm_disconnect(&inter));
}

/* What a spawned process does. */
static void be_child(MPI_Comm parents)
{
    MPI_Comm merged;

    use(MPI_COMM_WORLD, 39);
    use_intercomm(parents, 0, 100);
    MT_MPI(MPI_Intercomm_merge(parents, 1, &merged));
    use_and_free(&merged, "parents and spawned processes merged", 40);
    MT_MPI(MPI_Comm_disconnect(&parents));
}

/* A communicator of a session. */
static void sessions(void)
{
#if MPI_VERSION >= 4 || (defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION >= 5)
    MPI_Session session;
    MPI_Group group;
    MPI_Comm comm;

    MT_MPI(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session));
    MT_MPI(MPI_Group_from_session_pset(session, "mpi://WORLD", &group));
    MT_MPI(MPI_Comm_create_from_group(group, "mscclpp test", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm));
    use_and_free(&comm, "a communicator of a session", 50);
    MT_MPI(MPI_Group_free(&group));
    MT_MPI(MPI_Session_finalize(&session));
#endif
}

int main(int argc, char **argv)
{
    MPI_Comm parents;

    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    MPI_Comm_get_parent(&parents);
    if (MPI_COMM_NULL != parents) {
        be_child(parents);
        return mt_finish();
    }
    use(MPI_COMM_WORLD, 0);
    derived();
    from_groups();
    topologies();
    intercomm();
    ring();
    alive_at_once();
    sessions();
    if (argc > 1 && 0 == strcmp(argv[1], "--spawn")) {
        spawn(argv[0]);
    }
    return mt_finish();
}
