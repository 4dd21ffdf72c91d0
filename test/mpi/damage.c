/*
 * A library to be preloaded: collectives whose results are damaged on every rank that has one, as MSCCLPP_TEST_DAMAGE
 * says. last: the last byte of the result; beyond: the byte behind it, or the first of a buffer that is to get nothing;
 * skip: nothing was done at all, by MPI_Iallreduce and persistent requests either. For buffers that the CPU can touch.
 */
#include <stdlib.h>
#include <string.h>

#include <mpi.h>

static int is(const char *kind)
{
    const char *damage = getenv("MSCCLPP_TEST_DAMAGE");

    return damage != NULL && strcmp(damage, kind) == 0;
}

static size_t size_of(MPI_Datatype type)
{
    int size;

    PMPI_Type_size(type, &size);
    return (size_t)size;
}

static int rank_in(MPI_Comm comm)
{
    int rank;

    PMPI_Comm_rank(comm, &rank);
    return rank;
}

static size_t ranks_of(MPI_Comm comm)
{
    int size;

    PMPI_Comm_size(comm, &size);
    return (size_t)size;
}

/* The result is [buffer, buffer + bytes). `room`: there is more behind it that is not the call's. */
static int spoil(void *buffer, size_t bytes, int room)
{
    char *at = buffer;

    if (buffer != MPI_IN_PLACE && is("last") && bytes > 0) {
        at[bytes - 1] ^= 1;
    } else if (buffer != MPI_IN_PLACE && is("beyond") && room) {
        at[bytes] ^= 1;
    }
    return MPI_SUCCESS;
}

/* Bytes from the beginning to the end of the last block that is not empty. */
static size_t end_of(const int *counts, const int *firsts, size_t size, MPI_Comm comm)
{
    size_t end = 0;

    for (size_t i = 0; i < ranks_of(comm); ++i) {
        size_t block_end = ((size_t)firsts[i] + (size_t)counts[i]) * size;
        end = counts[i] > 0 && block_end > end ? block_end : end;
    }
    return end;
}

/* What a call comes to, and its damage. Its result has so many bytes. */
#define DAMAGE(call_, buffer_, bytes_, room_)                                                                          \
    if (is("skip")) {                                                                                                  \
        return MPI_SUCCESS;                                                                                            \
    }                                                                                                                  \
    int result = (call_);                                                                                              \
    return result != MPI_SUCCESS ? result : spoil(buffer_, bytes_, room_)

int MPI_Allreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    DAMAGE(PMPI_Allreduce(from, to, count, type, op, comm), to, (size_t)count * size_of(type), 0);
}

/* A request that is never started is complete. */
int MPI_Iallreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request *request)
{
    *request = MPI_REQUEST_NULL;
    return is("skip") ? MPI_SUCCESS : PMPI_Iallreduce(from, to, count, type, op, comm, request);
}

int MPI_Start(MPI_Request *request)
{
    return is("skip") ? MPI_SUCCESS : PMPI_Start(request);
}

int MPI_Reduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm)
{
    const int is_root = rank_in(comm) == root;

    DAMAGE(PMPI_Reduce(from, to, count, type, op, root, comm), to, is_root ? (size_t)count * size_of(type) : 0,
           !is_root);
}

int MPI_Scan(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    DAMAGE(PMPI_Scan(from, to, count, type, op, comm), to, (size_t)count * size_of(type), 0);
}

int MPI_Exscan(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    DAMAGE(PMPI_Exscan(from, to, count, type, op, comm), to, rank_in(comm) == 0 ? 0 : (size_t)count * size_of(type), 0);
}

int MPI_Reduce_scatter_block(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    DAMAGE(PMPI_Reduce_scatter_block(from, to, count, type, op, comm), to, (size_t)count * size_of(type), 1);
}

int MPI_Reduce_scatter(const void *from, void *to, const int counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    DAMAGE(PMPI_Reduce_scatter(from, to, counts, type, op, comm), to, (size_t)counts[rank_in(comm)] * size_of(type), 1);
}

int MPI_Bcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    DAMAGE(PMPI_Bcast(buffer, count, type, root, comm), buffer,
           rank_in(comm) == root ? 0 : (size_t)count * size_of(type), 0);
}

int MPI_Allgather(const void *from, int sent, MPI_Datatype sent_type, void *to, int count, MPI_Datatype type,
                  MPI_Comm comm)
{
    DAMAGE(PMPI_Allgather(from, sent, sent_type, to, count, type, comm), to,
           ranks_of(comm) * (size_t)count * size_of(type), 0);
}

int MPI_Allgatherv(const void *from, int sent, MPI_Datatype sent_type, void *to, const int counts[], const int firsts[],
                   MPI_Datatype type, MPI_Comm comm)
{
    DAMAGE(PMPI_Allgatherv(from, sent, sent_type, to, counts, firsts, type, comm), to,
           end_of(counts, firsts, size_of(type), comm), 0);
}

int MPI_Gather(const void *from, int sent, MPI_Datatype sent_type, void *to, int count, MPI_Datatype type, int root,
               MPI_Comm comm)
{
    const int is_root = rank_in(comm) == root;

    DAMAGE(PMPI_Gather(from, sent, sent_type, to, count, type, root, comm), to,
           is_root ? ranks_of(comm) * (size_t)count * size_of(type) : 0, !is_root);
}

int MPI_Gatherv(const void *from, int sent, MPI_Datatype sent_type, void *to, const int counts[], const int firsts[],
                MPI_Datatype type, int root, MPI_Comm comm)
{
    const int is_root = rank_in(comm) == root;

    DAMAGE(PMPI_Gatherv(from, sent, sent_type, to, counts, firsts, type, root, comm), to,
           is_root ? end_of(counts, firsts, size_of(type), comm) : 0, !is_root);
}

int MPI_Scatter(const void *from, int sent, MPI_Datatype sent_type, void *to, int count, MPI_Datatype type, int root,
                MPI_Comm comm)
{
    DAMAGE(PMPI_Scatter(from, sent, sent_type, to, count, type, root, comm), to, (size_t)count * size_of(type), 1);
}

int MPI_Scatterv(const void *from, const int counts[], const int firsts[], MPI_Datatype sent_type, void *to, int count,
                 MPI_Datatype type, int root, MPI_Comm comm)
{
    DAMAGE(PMPI_Scatterv(from, counts, firsts, sent_type, to, count, type, root, comm), to,
           (size_t)count * size_of(type), 1);
}

int MPI_Alltoall(const void *from, int sent, MPI_Datatype sent_type, void *to, int count, MPI_Datatype type,
                 MPI_Comm comm)
{
    DAMAGE(PMPI_Alltoall(from, sent, sent_type, to, count, type, comm), to,
           ranks_of(comm) * (size_t)count * size_of(type), 0);
}

int MPI_Alltoallv(const void *from, const int sent[], const int sent_firsts[], MPI_Datatype sent_type, void *to,
                  const int counts[], const int firsts[], MPI_Datatype type, MPI_Comm comm)
{
    DAMAGE(PMPI_Alltoallv(from, sent, sent_firsts, sent_type, to, counts, firsts, type, comm), to,
           end_of(counts, firsts, size_of(type), comm), 0);
}

int MPI_Alltoallw(const void *from, const int sent[], const int sent_firsts[], const MPI_Datatype sent_types[],
                  void *to, const int counts[], const int firsts[], const MPI_Datatype types[], MPI_Comm comm)
{
    size_t end = 0;

    for (size_t i = 0; i < ranks_of(comm); ++i) {
        size_t block_end = (size_t)firsts[i] + (size_t)counts[i] * size_of(types[i]);
        end = counts[i] > 0 && block_end > end ? block_end : end;
    }
    DAMAGE(PMPI_Alltoallw(from, sent, sent_firsts, sent_types, to, counts, firsts, types, comm), to, end, 0);
}
