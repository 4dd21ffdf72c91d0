/*
 * A rank has no memory to describe a call when the buffers of a request are mapped. All ranks have to hear of it at
 * once: the others must not wait for this rank until their deadline. This program's malloc comes before the C library's
 * and knows the allocation by its size.
 */
#include <errno.h>
#include <stdlib.h>

#include "mca/common/algo/coll.h"
#include "mpix/include/mpix_mscclpp_requests.h"
#include "test/mpi/mpi_queued.h"

/* More edges than a communicator may have ranks, so that their blocks with holes need a list of their own. */
#define EDGES 70
#define COUNT 4000   /* elements of an edge */
#define IN_PREPARE 2 /* lists of a description: of what is sent and of what is received */
#define PROMPT 8.0   /* seconds, less than any deadline */
#define ARMED_RANK 1

void *__libc_malloc(size_t size);

static int left; /* the allocation of a list that fails from now on; 0: none does */

__attribute__((visibility("default"))) void *malloc(size_t size)
{
    if (size == EDGES * sizeof(mscclpp_coll_pack_t) && left > 0 && --left == 0) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_malloc(size);
}

int main(int argc, char **argv)
{
    static int from[EDGES], to[EDGES];
    const size_t bytes = sizeof(int) * 2 * COUNT * EDGES;
    MPIX_Mscclpp_request request;
    mt_buffer_t send, recv;
    MPI_Datatype one, spread;
    MPI_Comm comm;
    double seconds;
    void *stream;
    int code;

    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    if (mt_too_small(2)) {
        return MT_SKIPPED;
    }
    for (int i = 0; i < EDGES; ++i) {
        to[i] = (mt_rank + 1) % mt_size;
        from[i] = (mt_rank + mt_size - 1) % mt_size;
    }
    stream = mq_stream_make();
    send = mt_buffer_alloc(MT_DEVICE, bytes, 0);
    recv = mt_buffer_alloc(MT_DEVICE, bytes, 0);
    MT_MPI(MPI_Type_vector(1, 1, 1, MPI_INT, &one));
    MT_MPI(MPI_Type_create_resized(one, 0, 2 * (MPI_Aint)sizeof(int), &spread));
    MT_MPI(MPI_Type_commit(&spread));
    MT_MPI(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, EDGES, from, MPI_UNWEIGHTED, EDGES, to, MPI_UNWEIGHTED,
                                          MPI_INFO_NULL, 0, &comm));
    MT_MPI(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    MT_MPI(MPIX_Mscclpp_neighbor_alltoall_init(send.data, COUNT, spread, recv.data, COUNT, spread, comm, &request));
    MT_MPI(MPIX_Mscclpp_attach_stream(request, stream));
    mt_barrier(MPI_COMM_WORLD);
    seconds = mt_now();
    left = ARMED_RANK == mt_rank ? IN_PREPARE + 1 : 0;
    code = MPIX_Mscclpp_prepare(1, &request);
    seconds = mt_now() - seconds;
    MT_CHECK(0 == left, "the list was not asked for");
    MT_CHECK(MPI_SUCCESS != code, "a rank without memory has mapped its buffers");
    MT_CHECK(seconds < PROMPT, "this took %.1f seconds", seconds);
    MT_MPI(MPIX_Mscclpp_request_free(&request));
    MT_MPI(MPI_Comm_free(&comm));
    MT_MPI(MPI_Type_free(&one));
    MT_MPI(MPI_Type_free(&spread));
    mt_buffer_free(&send, "send buffer");
    mt_buffer_free(&recv, "receive buffer");
    mq_stream_free(stream);
    return mt_finish();
}
