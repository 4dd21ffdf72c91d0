/*
 * An execution plan: what each block of each rank does in one collective call, as files of MSCCL++ describe it
 * (docs/plans.md). One object holds all ranks. The reader and mscclpp_plan_check check everything, so the numbers of a
 * plan without faults can be trusted.
 */
#ifndef MCA_COMMON_PLAN_PLAN_H
#define MCA_COMMON_PLAN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mca/common/base/status.h"
#include "mca/common/plan/report.h"

/* Limits on what is read; each is far beyond what a GPU could run. */
enum {
    MSCCLPP_PLAN_MAX_BYTES = 64 << 20, /* of a file */
    MSCCLPP_PLAN_MAX_VALUES = 8 << 20, /* of JSON */
    MSCCLPP_PLAN_MAX_DEPTH = 24,       /* of JSON */
    MSCCLPP_PLAN_MAX_RANKS = 1024,
    MSCCLPP_PLAN_MAX_BLOCKS = 1024,       /* of one rank */
    MSCCLPP_PLAN_MAX_OPS = 65536,         /* of one block */
    MSCCLPP_PLAN_MAX_ITEMS = 4096,        /* of one list of an operation */
    MSCCLPP_PLAN_MAX_TABLE = 65536,       /* channels, remote buffers, semaphores of one rank */
    MSCCLPP_PLAN_MAX_CHUNKS = 1 << 20,    /* of one buffer */
    MSCCLPP_PLAN_MAX_ALIGNMENT = 1 << 20, /* bytes */
    MSCCLPP_PLAN_MAX_UNIT = 1 << 30,      /* bytes of one turn of a pipeline */
    MSCCLPP_PLAN_MAX_NAME = 200,
    MSCCLPP_PLAN_GPU = 24 /* letters of a GPU's address, with a zero byte */
};

typedef enum {
    MSCCLPP_PLAN_ALLREDUCE,
    MSCCLPP_PLAN_ALLGATHER,
    MSCCLPP_PLAN_REDUCESCATTER,
    MSCCLPP_PLAN_ALLTOALL,
    MSCCLPP_PLAN_SENDRECV,
    MSCCLPP_PLAN_TEST,
    MSCCLPP_PLAN_CUSTOM,
    MSCCLPP_PLAN_COLLECTIVES
} mscclpp_plan_collective_t;

typedef enum {
    MSCCLPP_PLAN_INPUT,
    MSCCLPP_PLAN_OUTPUT,
    MSCCLPP_PLAN_SCRATCH,
    MSCCLPP_PLAN_BUFFERS
} mscclpp_plan_buffer_t;

typedef enum {
    MSCCLPP_PLAN_MEMORY,
    MSCCLPP_PLAN_PORT,
    MSCCLPP_PLAN_SWITCH,
    MSCCLPP_PLAN_NO_CHANNEL,
    MSCCLPP_PLAN_CHANNEL_TYPES = MSCCLPP_PLAN_NO_CHANNEL
} mscclpp_plan_channel_type_t;

typedef enum { MSCCLPP_PLAN_SUM, MSCCLPP_PLAN_MIN, MSCCLPP_PLAN_MAX } mscclpp_plan_reduce_t;

/* Every operation and its name in files. */
#define MSCCLPP_PLAN_OPS(X)                                                                                            \
    X(NOP, "nop")                                                                                                      \
    X(BARRIER, "barrier")                                                                                              \
    X(SIGNAL, "signal")                                                                                                \
    X(RLXSIGNAL, "rlxsignal")                                                                                          \
    X(WAIT, "wait")                                                                                                    \
    X(RLXWAIT, "rlxwait")                                                                                              \
    X(FLUSH, "flush")                                                                                                  \
    X(PUT, "put")                                                                                                      \
    X(PWS, "pws")                                                                                                      \
    X(PWSF, "pwsf")                                                                                                    \
    X(GET, "get")                                                                                                      \
    X(COPY, "copy")                                                                                                    \
    X(RE, "re")                                                                                                        \
    X(RES, "res")                                                                                                      \
    X(RRE, "rre")                                                                                                      \
    X(RRES, "rres")                                                                                                    \
    X(PPKT, "ppkt")                                                                                                    \
    X(RPPKT, "rppkt")                                                                                                  \
    X(CPKT, "cpkt")                                                                                                    \
    X(UPKT, "upkt")                                                                                                    \
    X(REPKT, "repkt")                                                                                                  \
    X(RESPKT, "respkt")                                                                                                \
    X(RECPKT, "recpkt")                                                                                                \
    X(RECSPKT, "recspkt")                                                                                              \
    X(GLRES, "glres")                                                                                                  \
    X(GSTORE, "gstore")                                                                                                \
    X(GSTOREPKT, "gstorepkt")                                                                                          \
    X(GLRE, "glre")                                                                                                    \
    X(ACQUIRE, "sem_acquire")                                                                                          \
    X(RELEASE, "sem_release")                                                                                          \
    X(PIPELINE, "pipeline")

#define MSCCLPP_PLAN_OP_ENUM(name_, text_) MSCCLPP_PLAN_OP_##name_,
typedef enum { MSCCLPP_PLAN_OPS(MSCCLPP_PLAN_OP_ENUM) MSCCLPP_PLAN_OP_KINDS } mscclpp_plan_op_kind_t;
#undef MSCCLPP_PLAN_OP_ENUM

typedef enum { MSCCLPP_PLAN_LOCAL, MSCCLPP_PLAN_REMOTE, MSCCLPP_PLAN_MULTICAST } mscclpp_plan_where_t;

/* A run of chunks of a buffer. mscclpp_plan_check fills in the fields marked with *. */
typedef struct {
    mscclpp_plan_where_t where;
    mscclpp_plan_buffer_t type; /* local; * for the other two */
    uint32_t id;                /* buffer_id or switch_channel_id from the file */
    uint32_t index, size;       /* chunks */
    uint32_t rank;              /* * the rank that owns the buffer */
    uint32_t group;             /* * multicast: position in the rank's list of switch channels */
} mscclpp_plan_item_t;

typedef struct mscclpp_plan_op {
    mscclpp_plan_op_kind_t kind;
    mscclpp_plan_channel_type_t channel_type;
    mscclpp_plan_reduce_t reduce;
    uint32_t *channel_ids; /* from the file */
    uint32_t *channels;    /* * positions in the rank's list of that type */
    uint32_t channel_count;
    mscclpp_plan_item_t *src, *dst;
    uint32_t src_count, dst_count;
    uint32_t *semaphores;
    uint32_t semaphore_count;
    uint32_t tb_id, tbg_size; /* tbg_size 0: no group */
    uint32_t barrier, barrier_blocks;
    uint64_t unit; /* pipeline: bytes of a turn */
    uint32_t num_chunks;
    struct mscclpp_plan_op *body;
    uint32_t body_count;
} mscclpp_plan_op_t;

typedef struct {
    uint32_t *ids;
    uint32_t count;
} mscclpp_plan_table_t;

typedef struct {
    mscclpp_plan_op_t *ops;
    uint32_t op_count;
    mscclpp_plan_table_t channels[MSCCLPP_PLAN_CHANNEL_TYPES];
    mscclpp_plan_table_t remotes[MSCCLPP_PLAN_SWITCH]; /* memory and port */
} mscclpp_plan_block_t;

/* One end of a memory or port channel. */
typedef struct {
    uint32_t peer;
    int64_t pair; /* * position in the peer's list, -1: the peer has none */
} mscclpp_plan_channel_t;

typedef struct {
    mscclpp_plan_buffer_t type;
    uint32_t *ranks;
    uint32_t count;
} mscclpp_plan_group_t;

typedef struct {
    uint32_t rank;
    mscclpp_plan_buffer_t type;
    bool by[MSCCLPP_PLAN_SWITCH]; /* memory, port */
} mscclpp_plan_remote_t;

typedef struct {
    uint32_t chunks[MSCCLPP_PLAN_BUFFERS];
    mscclpp_plan_block_t *blocks;
    uint32_t block_count;
    mscclpp_plan_channel_t *channels[MSCCLPP_PLAN_SWITCH]; /* memory and port */
    uint32_t channel_count[MSCCLPP_PLAN_SWITCH];
    mscclpp_plan_group_t *groups; /* switch channels */
    uint32_t group_count;
    mscclpp_plan_remote_t *remotes;
    uint32_t remote_count;
    uint32_t *semaphores; /* initial values */
    uint32_t semaphore_count;
} mscclpp_plan_rank_t;

typedef struct {
    char *name;
    mscclpp_plan_collective_t collective;
    bool packets; /* protocol LL: twice the scratch */
    bool in_place;
    bool reuse;
    bool halves; /* two scratch halves, by parity of the launch */
    uint32_t threads;
    uint32_t alignment;
    uint64_t min_bytes, max_bytes;
    mscclpp_plan_rank_t *ranks;
    uint32_t rank_count;
    char (*gpus)[MSCCLPP_PLAN_GPU]; /* on the PCI bus, of each rank; NULL: the plan is for any GPUs */
    uint64_t digest;                /* of the file's bytes */
    uint64_t file_bytes;
    struct mscclpp_plan_arena *arena; /* holds all of the above */
} mscclpp_plan_t;

/*
 * Reads a file of generation 2. Refuses anything else with MSCCLPP_ERR_INVALID and the reason in the report.
 * MSCCLPP_ERR_NOT_SUPPORTED if the library was built without a JSON parser.
 */
mscclpp_status_t mscclpp_plan_read(const char *path, mscclpp_plan_report_t *report, mscclpp_plan_t **plan_p);

/* The same from memory. */
mscclpp_status_t mscclpp_plan_parse(const char *text, size_t size, mscclpp_plan_report_t *report,
                                    mscclpp_plan_t **plan_p);

void mscclpp_plan_free(mscclpp_plan_t *plan);

#endif
