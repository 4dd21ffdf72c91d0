/* Collectives by NCCL's functions, which bench_nccl.c finds. Collectives that NCCL lacks are built from its sends. */
#ifndef TOOLS_BENCH_BENCH_NCCL_H
#define TOOLS_BENCH_BENCH_NCCL_H

#include "tools/bench/bench.h"

typedef void *nccl_comm_t;

/* Each returns 0 for success. `stream` is a cudaStream_t. */
typedef struct {
    int (*all_reduce)(const void *sendbuf, void *recvbuf, size_t count, int type, int op, nccl_comm_t comm,
                      void *stream);
    int (*all_gather)(const void *sendbuf, void *recvbuf, size_t sendcount, int type, nccl_comm_t comm, void *stream);
    int (*reduce_scatter)(const void *sendbuf, void *recvbuf, size_t recvcount, int type, int op, nccl_comm_t comm,
                          void *stream);
    int (*broadcast)(const void *sendbuf, void *recvbuf, size_t count, int type, int root, nccl_comm_t comm,
                     void *stream);
    int (*reduce)(const void *sendbuf, void *recvbuf, size_t count, int type, int op, int root, nccl_comm_t comm,
                  void *stream);
    int (*send)(const void *sendbuf, size_t count, int type, int peer, nccl_comm_t comm, void *stream);
    int (*recv)(void *recvbuf, size_t count, int type, int peer, nccl_comm_t comm, void *stream);
    int (*group_start)(void);
    int (*group_end)(void);
} nccl_functions_t;

/* Queues one call in the stream. Returns NCCL's result. */
int bench_nccl_call(const nccl_functions_t *functions, const bench_operation_t *operation, nccl_comm_t comm,
                    void *stream);

/* Returns whether NCCL can serve a collective as MPI means it. */
bench_serves_t bench_nccl_serves(const bench_coll_t *coll, bool in_place);

#endif
