/*
 * Queued all-reduces by the buffers of all ranks: of persistent requests, started in a stream, in graphs, and in parts,
 * and captured without a request. Buffers are freed, and new ones lie where they lay.
 */
#include <string.h>

#include "mpix/include/mpix_mscclpp_requests.h"
#include "test/mpi/mpi_queued.h"

enum { COUNT = 300000, PARTS = 4, TURNS = 5 };

static MPIX_Mscclpp_request request_of(mq_sum_t *sum, void *stream)
{
    MPIX_Mscclpp_request request;

    MT_MPI(MPIX_Mscclpp_allreduce_init(sum->send.data, sum->recv.data, sum->count, MPI_INT, MPI_SUM, MPI_COMM_WORLD,
                                       &request));
    MT_MPI(MPIX_Mscclpp_attach_stream(request, stream));
    MT_MPI(MPIX_Mscclpp_prepare(1, &request));
    return request;
}

/* A start of the request between copies; for no request a call of its own. */
static void queue(mq_sum_t *sum, MPIX_Mscclpp_request request, void *stream)
{
    const size_t size = sizeof(int) * (size_t)sum->count;

    mq_stream_copy(stream, sum->send.data, sum->source.data, size);
    if (request != NULL) {
        MT_MPI(MPIX_Mscclpp_start(1, &request));
    } else {
        MT_MPI(MPIX_Mscclpp_allreduce_enqueue(sum->send.data, sum->recv.data, sum->count, MPI_INT, MPI_SUM,
                                              MPI_COMM_WORLD, stream));
    }
    mq_stream_copy(stream, sum->result.data, sum->recv.data, size);
}

static void *capture(mq_sum_t *sum, MPIX_Mscclpp_request request, void *stream)
{
    mq_capture_begin(stream);
    queue(sum, request, stream);
    return mq_capture_end(stream);
}

/* Starts in a stream and launches of two graphs by turns. */
static void by_turns(int salt)
{
    void *stream = mq_stream_make(), *graphs[2];
    MPIX_Mscclpp_request request;
    mq_sum_t sum;

    mq_sum_make(&sum, COUNT);
    request = request_of(&sum, stream);
    graphs[0] = capture(&sum, request, stream);
    graphs[1] = capture(&sum, NULL, stream);
    for (int turn = 0; turn < TURNS; ++turn) {
        mq_sum_fill(&sum, salt + turn);
        mt_barrier(MPI_COMM_WORLD);
        if (turn % 3 == 0) {
            queue(&sum, request, stream);
        } else {
            mq_graph_launch(graphs[turn % 3 - 1], stream);
        }
        mq_stream_wait(stream);
        mq_sum_check(&sum, salt + turn, turn % 3 == 0 ? "a start" : turn % 3 == 1 ? "a graph of starts" : "a graph");
    }
    MT_MPI(MPIX_Mscclpp_wait(1, &request));
    MT_MPI(MPIX_Mscclpp_request_free(&request));
    mq_graph_launch(graphs[0], stream); /* the graph outlives the request */
    mq_stream_wait(stream);
    mq_sum_check(&sum, salt + TURNS - 1, "a graph of a freed request");
    if (mt_twin) {
        MT_MPI(MPIX_Mscclpp_host_graph_destroy(graphs[0]));
        MT_MPI(MPIX_Mscclpp_host_graph_destroy(graphs[1]));
    }
    mt_barrier(MPI_COMM_WORLD);
    mq_sum_free(&sum);
    mq_stream_free(stream);
}

/* Parts that the host marks ready, the last one first. */
static void in_parts(void)
{
    void *stream = mq_stream_make();
    MPIX_Mscclpp_request request;
    mq_sum_t sum;

    mq_sum_make(&sum, COUNT);
    MT_MPI(MPIX_Mscclpp_pallreduce_init(sum.source.data, sum.result.data, PARTS, COUNT / PARTS, MPI_INT, MPI_SUM,
                                        MPI_COMM_WORLD, &request));
    MT_MPI(MPIX_Mscclpp_attach_kernels(request, stream));
    MT_MPI(MPIX_Mscclpp_prepare(1, &request));
    for (int turn = 0; turn < TURNS; ++turn) {
        mq_sum_fill(&sum, turn);
        MT_MPI(MPIX_Mscclpp_start(1, &request));
        for (int part = PARTS - 1; part >= 0; --part) {
            MT_MPI(MPIX_Mscclpp_pready(part, part, request));
        }
        MT_MPI(MPIX_Mscclpp_wait(1, &request));
        mq_sum_check(&sum, turn, "in parts");
        mt_barrier(MPI_COMM_WORLD);
    }
    MT_MPI(MPIX_Mscclpp_request_free(&request));
    mt_barrier(MPI_COMM_WORLD);
    mq_sum_free(&sum);
    mq_stream_free(stream);
}

int main(int argc, char **argv)
{
    mt_init(&argc, &argv, MPI_THREAD_SINGLE);
    if (mt_too_small(2)) {
        return MT_SKIPPED;
    }
    for (int life = 0; life < 3; ++life) {
        by_turns(100 * life);
    }
    in_parts();
    return mt_finish();
}
