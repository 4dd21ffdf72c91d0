/* The list of the collectives that have kernels, except all-reduce, which has separate algorithms and parameters. */
#ifndef MCA_COMMON_BASE_COLLS_H
#define MCA_COMMON_BASE_COLLS_H

/*
 * X(ID, name in messages and parameters, pattern). Variants with sizes that differ between ranks are served like the
 * collective itself. Neighborhood collectives, which come last, are served like exchanges of all ranks.
 */
#define MSCCLPP_COLLS(X)                                                                                               \
    X(ALLGATHER, allgather, MSCCLPP_DEV_ALLGATHER)                                                                     \
    X(ALLGATHERV, allgatherv, MSCCLPP_DEV_ALLGATHER)                                                                   \
    X(ALLTOALL, alltoall, MSCCLPP_DEV_ALLTOALL)                                                                        \
    X(ALLTOALLV, alltoallv, MSCCLPP_DEV_ALLTOALL)                                                                      \
    X(ALLTOALLW, alltoallw, MSCCLPP_DEV_ALLTOALL)                                                                      \
    X(BCAST, bcast, MSCCLPP_DEV_BCAST)                                                                                 \
    X(GATHER, gather, MSCCLPP_DEV_GATHER)                                                                              \
    X(GATHERV, gatherv, MSCCLPP_DEV_GATHER)                                                                            \
    X(SCATTER, scatter, MSCCLPP_DEV_SCATTER)                                                                           \
    X(SCATTERV, scatterv, MSCCLPP_DEV_SCATTER)                                                                         \
    X(REDUCE, reduce, MSCCLPP_DEV_REDUCE)                                                                              \
    X(REDUCE_SCATTER, reduce_scatter, MSCCLPP_DEV_REDUCE_SCATTER)                                                      \
    X(REDUCE_SCATTER_BLOCK, reduce_scatter_block, MSCCLPP_DEV_REDUCE_SCATTER)                                          \
    X(SCAN, scan, MSCCLPP_DEV_SCAN)                                                                                    \
    X(EXSCAN, exscan, MSCCLPP_DEV_EXSCAN)                                                                              \
    X(NEIGHBOR_ALLGATHER, neighbor_allgather, MSCCLPP_DEV_ALLTOALL)                                                    \
    X(NEIGHBOR_ALLGATHERV, neighbor_allgatherv, MSCCLPP_DEV_ALLTOALL)                                                  \
    X(NEIGHBOR_ALLTOALL, neighbor_alltoall, MSCCLPP_DEV_ALLTOALL)                                                      \
    X(NEIGHBOR_ALLTOALLV, neighbor_alltoallv, MSCCLPP_DEV_ALLTOALL)                                                    \
    X(NEIGHBOR_ALLTOALLW, neighbor_alltoallw, MSCCLPP_DEV_ALLTOALL)

typedef enum {
#define MSCCLPP_COLL_ID(id_, name_, pattern_) MSCCLPP_COLL_##id_,
    MSCCLPP_COLLS(MSCCLPP_COLL_ID)
#undef MSCCLPP_COLL_ID
        MSCCLPP_COLL_LAST,
    MSCCLPP_COLL_NEIGHBORS = MSCCLPP_COLL_NEIGHBOR_ALLGATHER /* the first neighborhood collective */
} mscclpp_coll_t;

/* Returns the name for messages, such as "allgather"; "all-reduce" for MSCCLPP_COLL_LAST. */
static inline const char *mscclpp_coll_name(mscclpp_coll_t coll)
{
    static const char *const names[MSCCLPP_COLL_LAST + 1] = {
#define MSCCLPP_COLL_NAME(id_, name_, pattern_) [MSCCLPP_COLL_##id_] = #name_,
        MSCCLPP_COLLS(MSCCLPP_COLL_NAME)
#undef MSCCLPP_COLL_NAME
            [MSCCLPP_COLL_LAST] = "all-reduce",
    };

    return names[coll];
}

#endif
