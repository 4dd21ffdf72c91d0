/*
 * An execution plan: the operations that each block of each rank executes in one collective call, as files of MSCCL++
 * describe them (docs/plans.md). One object holds all ranks. The reader and mscclpp_plan_check check all numbers, so
 * the numbers of a plan without faults can be used as indices without further checks.
 */
#ifndef MCA_COMMON_PLAN_PLAN_H
#define MCA_COMMON_PLAN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mca/common/base/status.h"
#include "mca/common/plan/report.h"

/* Limits of a plan. The reader refuses larger numbers; each limit is far beyond the needs of a GPU. */
enum {
    MSCCLPP_PLAN_MAX_BYTES = 64 << 20, /* bytes of a file */
    MSCCLPP_PLAN_MAX_VALUES = 8 << 20, /* number of JSON values in a file */
    MSCCLPP_PLAN_MAX_DEPTH = 24,       /* depth of nested JSON arrays and objects */
    MSCCLPP_PLAN_MAX_RANKS = 1024,
    MSCCLPP_PLAN_MAX_BLOCKS = 1024,       /* blocks of one rank */
    MSCCLPP_PLAN_MAX_OPS = 65536,         /* operations of one block */
    MSCCLPP_PLAN_MAX_ITEMS = 4096,        /* items of one list of an operation; switch channels of one rank */
    MSCCLPP_PLAN_MAX_TABLE = 65536,       /* memory or port channels, remote buffers, or semaphores of one rank */
    MSCCLPP_PLAN_MAX_CHUNKS = 1 << 20,    /* chunks of one buffer */
    MSCCLPP_PLAN_MAX_ALIGNMENT = 1 << 20, /* in bytes */
    MSCCLPP_PLAN_MAX_UNIT = 1 << 30,      /* bytes of one turn of a pipeline */
    MSCCLPP_PLAN_MAX_NAME = 200,          /* bytes of a plan's name */
    MSCCLPP_PLAN_GPU = 24                 /* characters of a GPU's address, with the zero byte at the end */
};

/* The operation that a plan executes. The values from SENDRECV on are not collectives of MPI. */
typedef enum {
    MSCCLPP_PLAN_ALLREDUCE,
    MSCCLPP_PLAN_ALLGATHER,
    MSCCLPP_PLAN_REDUCESCATTER,
    MSCCLPP_PLAN_ALLTOALL,
    MSCCLPP_PLAN_SENDRECV, /* each rank's output is the input of the rank before it */
    MSCCLPP_PLAN_TEST,     /* anything */
    MSCCLPP_PLAN_CUSTOM,   /* anything */
    MSCCLPP_PLAN_COLLECTIVES
} mscclpp_plan_collective_t;

/* A rank's buffers. */
typedef enum {
    MSCCLPP_PLAN_INPUT,
    MSCCLPP_PLAN_OUTPUT,
    MSCCLPP_PLAN_SCRATCH,
    MSCCLPP_PLAN_BUFFERS
} mscclpp_plan_buffer_t;

/* The type of channel over which an operation accesses other ranks. */
typedef enum {
    MSCCLPP_PLAN_MEMORY, /* kernels load and store in a peer's memory */
    MSCCLPP_PLAN_PORT,   /* a proxy moves data when a kernel asks for it */
    MSCCLPP_PLAN_SWITCH, /* kernels load and store in the memory of several ranks at once */
    MSCCLPP_PLAN_NO_CHANNEL,
    MSCCLPP_PLAN_CHANNEL_TYPES = MSCCLPP_PLAN_NO_CHANNEL
} mscclpp_plan_channel_type_t;

/* How the plan's reductions combine elements. */
typedef enum { MSCCLPP_PLAN_SUM, MSCCLPP_PLAN_MIN, MSCCLPP_PLAN_MAX } mscclpp_plan_reduce_t;

/* Every operation and its name in files. "Own" means data in the rank's own buffers. */
#define MSCCLPP_PLAN_OPS(X)                                                                                            \
    X(NOP, "nop")             /* the threads of the block meet */                                                      \
    X(BARRIER, "barrier")     /* blocks of the rank meet */                                                            \
    X(SIGNAL, "signal")       /* signals peers */                                                                      \
    X(RLXSIGNAL, "rlxsignal") /* relaxed; here the same as signal */                                                   \
    X(WAIT, "wait")           /* waits for signals of peers */                                                         \
    X(RLXWAIT, "rlxwait")     /* relaxed; here the same as wait */                                                     \
    X(FLUSH, "flush")         /* waits until proxies have done all that was asked */                                   \
    X(PUT, "put")             /* copies own data to peers */                                                           \
    X(PWS, "pws")             /* put, and a signal */                                                                  \
    X(PWSF, "pwsf")           /* put, a signal, and flush */                                                           \
    X(GET, "get")             /* copies data of peers to own memory */                                                 \
    X(COPY, "copy")           /* copies own data within the rank */                                                    \
    X(RE, "re")               /* combines own data */                                                                  \
    X(RES, "res")             /* re, and stores the result to peers, too */                                            \
    X(RRE, "rre")             /* combines own data with those of peers */                                              \
    X(RRES, "rres")           /* rre, and stores the result to peers, too */                                           \
    X(PPKT, "ppkt")           /* puts own data to peers as packets */                                                  \
    X(RPPKT, "rppkt")         /* passes packets on to peers */                                                         \
    X(CPKT, "cpkt")           /* copies own data to packets */                                                         \
    X(UPKT, "upkt")           /* copies packets to own data */                                                         \
    X(REPKT, "repkt")         /* combines own data with packets */                                                     \
    X(RESPKT, "respkt")       /* repkt, and sends the result to peers */                                               \
    X(RECPKT, "recpkt")       /* repkt, and keeps the result as packets, too */                                        \
    X(RECSPKT, "recspkt")     /* recpkt, and sends the result to peers */                                              \
    X(GLRES, "glres")         /* combines data of a switch channel, stores to all */                                   \
    X(GSTORE, "gstore")       /* stores own data to a switch channel */                                                \
    X(GSTOREPKT, "gstorepkt") /* stores packets to a switch channel */                                                 \
    X(GLRE, "glre")           /* cannot be executed */                                                                 \
    X(ACQUIRE, "sem_acquire") /* takes semaphores of the rank */                                                       \
    X(RELEASE, "sem_release") /* gives semaphores of the rank */                                                       \
    X(PIPELINE, "pipeline")   /* a loop over parts of chunks */

#define MSCCLPP_PLAN_OP_ENUM(name_, text_) MSCCLPP_PLAN_OP_##name_,
typedef enum { MSCCLPP_PLAN_OPS(MSCCLPP_PLAN_OP_ENUM) MSCCLPP_PLAN_OP_KINDS } mscclpp_plan_op_kind_t;
#undef MSCCLPP_PLAN_OP_ENUM

/* The owner of the memory of an item: this rank, a peer, or all ranks of a switch channel. */
typedef enum { MSCCLPP_PLAN_LOCAL, MSCCLPP_PLAN_REMOTE, MSCCLPP_PLAN_MULTICAST } mscclpp_plan_where_t;

/*
 * An item: successive chunks of one buffer, which are a source or a target of an operation. The reader fills in the
 * fields from the file. mscclpp_plan_check fills in the fields marked with (*), here and in the structs below.
 */
typedef struct {
    mscclpp_plan_where_t where;
    mscclpp_plan_buffer_t type; /* local: from the file; remote and multicast: (*) */
    uint32_t id;                /* remote: buffer_id, multicast: switch_channel_id; both count within the block */
    uint32_t index, size;       /* first chunk, number of chunks */
    uint32_t rank;              /* (*) the rank that owns the buffer; multicast: the rank of the operation */
    uint32_t group;             /* (*) multicast: position in the rank's list of switch channels */
} mscclpp_plan_item_t;

/* One operation of a block. Which fields are used depends on `kind`. */
typedef struct mscclpp_plan_op {
    mscclpp_plan_op_kind_t kind;
    mscclpp_plan_channel_type_t channel_type;
    mscclpp_plan_reduce_t reduce;
    uint32_t *channel_ids; /* from the file: positions in the block's list of channels of that type */
    uint32_t *channels;    /* (*) the same channels: positions in the rank's list of that type */
    uint32_t channel_count;
    mscclpp_plan_item_t *src, *dst;
    uint32_t src_count, dst_count;
    uint32_t *semaphores; /* positions in the rank's list */
    uint32_t semaphore_count;
    uint32_t tb_id, tbg_size; /* number of this block's part, number of parts; tbg_size 0: the block does all parts */
    uint32_t barrier, barrier_blocks; /* the barrier's number, and the number of blocks that meet there */
    uint64_t unit;                    /* pipeline: number of bytes of its chunks that a turn handles */
    uint32_t num_chunks; /* pipeline: number of chunks that its turns, and so the operations of its body, handle */
    struct mscclpp_plan_op *body; /* pipeline: the operations of a turn, which cannot be pipelines */
    uint32_t body_count;
} mscclpp_plan_op_t;

/* A table by which a block numbers its channels or remote buffers: entry i is a position in the rank's list. */
typedef struct {
    uint32_t *ids;
    uint32_t count;
} mscclpp_plan_table_t;

/* One thread block of a rank, with its operations in the order of execution. */
typedef struct {
    mscclpp_plan_op_t *ops;
    uint32_t op_count;
    mscclpp_plan_table_t channels[MSCCLPP_PLAN_CHANNEL_TYPES];
    mscclpp_plan_table_t remotes[MSCCLPP_PLAN_SWITCH]; /* by channel type: memory, port */
} mscclpp_plan_block_t;

/* One end of a memory or port channel. */
typedef struct {
    uint32_t peer;
    int64_t pair; /* (*) position of the other end in the peer's list; -1: the peer has none */
} mscclpp_plan_channel_t;

/* A switch channel: the ranks that it connects, in ascending order, and the buffer that it accesses on each rank. */
typedef struct {
    mscclpp_plan_buffer_t type;
    uint32_t *ranks;
    uint32_t count;
} mscclpp_plan_group_t;

/* A buffer of another rank that this rank may access. */
typedef struct {
    uint32_t rank;
    mscclpp_plan_buffer_t type;
    bool by[MSCCLPP_PLAN_SWITCH]; /* by channel type (memory, port): the buffer may be accessed over such channels */
} mscclpp_plan_remote_t;

/* One rank of a plan: its buffers, blocks and channels. */
typedef struct {
    uint32_t chunks[MSCCLPP_PLAN_BUFFERS]; /* number of chunks of each buffer; 0: the rank does not use it */
    mscclpp_plan_block_t *blocks;
    uint32_t block_count;
    mscclpp_plan_channel_t *channels[MSCCLPP_PLAN_SWITCH]; /* by type: memory, port */
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
    bool uses_packets; /* the protocol is LL, which takes twice the scratch */
    bool in_place;
    bool reuse;                    /* "reuse_resources": peers and proxies access only the scratch */
    bool halves;                   /* the scratch has two halves, which launches use in turn */
    uint32_t threads;              /* number of threads of a block */
    uint32_t alignment;            /* of chunks, in bytes */
    uint64_t min_bytes, max_bytes; /* range of message sizes for which the plan may be used */
    mscclpp_plan_rank_t *ranks;
    uint32_t rank_count;
    char (*gpus)[MSCCLPP_PLAN_GPU]; /* PCI bus address of each rank's GPU; NULL: the plan is for any GPUs */
    uint64_t digest;                /* digest of the file's bytes */
    uint64_t file_bytes;
    struct mscclpp_plan_arena *arena; /* memory of all of the above */
} mscclpp_plan_t;

/*
 * Reads a plan from a file of generation 2 of the format. Does not call mscclpp_plan_check. The caller frees *plan_p.
 *
 * A file that cannot be read, or that has any other content, is refused with MSCCLPP_ERR_INVALID and the reason in the
 * report. MSCCLPP_ERR_NO_MEMORY sets `no_memory` in the report. MSCCLPP_ERR_NOT_SUPPORTED means that there is no JSON
 * parser; the reason is in the report. After an error, *plan_p is unchanged. Logs nothing.
 */
mscclpp_status_t mscclpp_plan_read(const char *path, mscclpp_plan_report_t *report, mscclpp_plan_t **plan_p);

/*
 * Parses the text of a plan's file in memory, as mscclpp_plan_read does for a file. The plan does not refer to the text
 * afterwards.
 */
mscclpp_status_t mscclpp_plan_parse(const char *text, size_t size, mscclpp_plan_report_t *report,
                                    mscclpp_plan_t **plan_p);

void mscclpp_plan_free(mscclpp_plan_t *plan); /* NULL is allowed */

#endif
