/*
 * What the tests of queued calls share: streams of either kind, copies in their order, graphs of them, and all-reduces
 * between two copies.
 */
#ifndef TEST_MPI_MPI_QUEUED_H
#define TEST_MPI_MPI_QUEUED_H

#include "mca/coll/mscclpp/native/api.h"
#include "mpix/include/mpix_mscclpp.h"
#include "test/mpi/mpi_test.h"

/* The component's table, from the file that the launcher has named; NULL: there is no such file. */
const mca_coll_mscclpp_api_t *mq_component_table(void);

void *mq_stream_make(void);
void mq_stream_wait(void *stream);
void mq_stream_free(void *stream);

/* On the twin the copy takes some time, so that anything that does not wait for it comes too early. */
void mq_stream_copy(void *stream, void *to, const void *from, size_t size);

void mq_capture_begin(void *stream);
void *mq_capture_end(void *stream);
void mq_graph_launch(void *graph, void *stream);

/* A graph that is made node by node, each behind the one before. On the twin nodes are NULL. */
typedef struct {
    void *graph;
    void *last; /* node; NULL: there is none */
} mq_graph_t;
mq_graph_t mq_graph_make(void);
void mq_graph_add_copy(mq_graph_t *graph, void *stream, void *to, const void *from, size_t size);

/* Lets a node that was added otherwise follow the last one. */
void mq_graph_follow(mq_graph_t *graph, void *node);

/* What mq_graph_launch takes. */
void *mq_graph_ready(mq_graph_t *graph);

/* What MPIX_Mscclpp_query answers. */
MPI_Count mq_asked(MPI_Comm comm, int what);

/* Operand `index` of a rank, and the sum of those of all ranks. */
int mq_value_of(int rank, int index, int salt);
int mq_sum_of(int ranks, int index, int salt);

/*
 * One all-reduce between two copies: `source` is copied to `send`, `send` is reduced to `recv`, and `recv` is copied to
 * `result`. The result is wrong if a step overtakes the step before it.
 */
typedef struct {
    int count;
    mt_buffer_t source, send, recv, result;
    int *host;
} mq_sum_t;

void mq_sum_make(mq_sum_t *sum, int count);
void mq_sum_fill(mq_sum_t *sum, int salt);
void mq_sum_queue(mq_sum_t *sum, MPI_Comm comm, void *stream);
void mq_sum_check(mq_sum_t *sum, int salt, const char *what);
void mq_sum_free(mq_sum_t *sum);

#endif
