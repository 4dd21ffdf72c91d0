/*
 * The algorithms of all-reduce, and the inputs of the choice between them. To add an algorithm, write:
 *
 * - a kernel body in device/kern
 * - its identifier in device/types/launch.h
 * - its row in both launchers
 * - a file in mca/common/algo/allreduce with its mscclpp_algo_t
 * - its line in registry.c
 */
#ifndef MCA_COMMON_ALGO_ALGO_H
#define MCA_COMMON_ALGO_ALGO_H

#include <stdbool.h>
#include <stdint.h>

#include "device/launch/launch.h"

/* The maximum number of rules for one number of ranks on one kind of device. */
#define MSCCLPP_RULES_MAX 24

/* One rule of all-reduce from a rules file. */
typedef struct {
    uint64_t bytes;    /* the rule is for messages of up to this number of bytes */
    int64_t algorithm; /* index in the registry, or mscclpp_rule_hash_plan */
    uint64_t place;    /* mscclpp_rule_place_t */
    uint64_t nodes;    /* the rule is for ranks on this number of nodes; 0: on one node */
} mscclpp_rule_t;

/* Whether a rule is for calls with MPI_IN_PLACE, for calls without it, or for both (ANY_PLACE). */
typedef enum { MSCCLPP_RULE_ANY_PLACE, MSCCLPP_RULE_IN_PLACE, MSCCLPP_RULE_OUT_OF_PLACE } mscclpp_rule_place_t;

/* The smallest value of `algorithm` that names an execution plan (mscclpp_rule_hash_plan). */
#define MSCCLPP_RULE_PLANS ((int64_t)1 << 62)

/*
 * The rules of all-reduce for one number of ranks on one kind of device. The structure is sent as plain bytes, so it
 * has no padding, and unused entries are 0.
 */
typedef struct {
    uint64_t count;
    mscclpp_rule_t rules[MSCCLPP_RULES_MAX];
} mscclpp_rule_set_t;

/* The maximum number of rules for the collectives other than all-reduce, which share one set. */
#define MSCCLPP_COLL_RULES_MAX 96

/* One rule of a collective other than all-reduce. */
typedef struct {
    uint64_t bytes;    /* the rule is for calls whose largest block has up to this number of bytes */
    int64_t coll;      /* mscclpp_coll_t */
    int64_t algorithm; /* mscclpp_coll_algo_t, or mscclpp_rule_hash_plan */
    uint64_t place;    /* mscclpp_rule_place_t */
    uint64_t nodes;    /* the rule is for ranks on this number of nodes; 0: on one node */
} mscclpp_coll_rule_t;

/* The rules of the other collectives, as in mscclpp_rule_set_t. */
typedef struct {
    uint64_t count;
    mscclpp_coll_rule_t rules[MSCCLPP_COLL_RULES_MAX];
} mscclpp_coll_rule_set_t;

/* Number of transports for which a rules file may give figures, in the order of mca/common/algo/schedule/cost.h. */
#define MSCCLPP_RULE_TRANSPORTS 4

/* Measured figures of a transport, in seconds and in bytes per second, as in mscclpp_cost_figures_t. */
typedef struct {
    uint64_t is_given; /* 0: the rules file has no figures of this transport */
    double latency;
    double overhead;
    double gap;
    double bandwidth;
} mscclpp_rule_figures_t;

/* The maximum number of collectives besides all-reduce (mca/common/base/colls.h). */
#define MSCCLPP_PROTOCOL_COLLS 24

/*
 * Settings that change the data that ranks send one another. At bring-up all ranks take the values of rank 0, which are
 * sent as plain bytes.
 */
typedef struct {
    int32_t algorithm;       /* index in the registry, MSCCLPP_ALGO_AUTO or MSCCLPP_ALGO_STAGE */
    int32_t packet_width;    /* 128, 16, 8, or 0 for the algorithm's own choice */
    uint32_t max_blocks;     /* 0 for the algorithm's own choice */
    uint32_t max_threads;    /* 0 for the algorithm's own choice */
    uint32_t twin_blocks;    /* number of blocks of a grid on the twin */
    uint32_t twin_threads;   /* number of threads of a block on the twin */
    uint64_t linger_max;     /* the largest message that lingering kernels serve, in bytes; 0: none */
    uint32_t linger_blocks;  /* number of blocks of a lingering kernel with more than one block */
    uint32_t zerocopy;       /* 0: kernels and copy engines never access users' buffers of other ranks */
    uint32_t shared_gpu;     /* mscclpp_shared_gpu_t */
    uint64_t oneshot_max;    /* bytes, 0 for the built-in table */
    uint64_t twophase_max;   /* bytes, 0 for the built-in table */
    uint64_t put_max;        /* bytes, 0 for the built-in table */
    uint64_t lines_min;      /* bytes, 0 for the built-in table */
    uint64_t engine_min;     /* bytes, 0 for the built-in table */
    uint64_t engine_chunk;   /* bytes, 0 for the built-in table */
    uint64_t engine_scratch; /* bytes of scratch for copy engines */
    uint64_t scratch_size;   /* bytes of the areas of a team's scratch; see mscclpp_layout_t */
    uint64_t epoch_limit; /* number of epochs after which packet flags are cleared and their numbering starts again */
    mscclpp_rule_set_t rules;           /* all-reduce rules for the number of the team's ranks */
    mscclpp_coll_rule_set_t coll_rules; /* rules of the other collectives for the same number of ranks */
    mscclpp_rule_figures_t figures[MSCCLPP_RULE_TRANSPORTS];
    uint32_t nodes_fanout;                          /* number of nodes to which a rank sends at a time; 0: any number */
    uint64_t nodes_packets_max;                     /* bytes, 0 for the built-in choice */
    uint64_t nodes_split_min;                       /* bytes, 0 for the built-in choice */
    uint64_t nodes_ring_min;                        /* bytes, 0 for the built-in choice */
    int32_t coll_algorithm[MSCCLPP_PROTOCOL_COLLS]; /* by mscclpp_coll_t: a mscclpp_coll_algo_t, MSCCLPP_ALGO_AUTO or
                                                       MSCCLPP_ALGO_STAGE */
} mscclpp_protocol_t;

/* Values of the parameters for algorithms that name none: the built-in choice, and no kernels for any call. */
#define MSCCLPP_ALGO_AUTO (-1)
#define MSCCLPP_ALGO_STAGE (-2)

/* The parameter shared_gpu: whether ranks that share a GPU use kernels, or stage all calls. */
typedef enum { MSCCLPP_SHARED_GPU_AUTO, MSCCLPP_SHARED_GPU_KERNELS, MSCCLPP_SHARED_GPU_STAGE } mscclpp_shared_gpu_t;

/*
 * The areas of a team's scratch. Their order is: barrier words, the two halves of the packet area, the LL128 area, the
 * bulk area, the put area, the state. Sizes and offsets are in bytes.
 *
 * - The packet area and the bulk area have half of the parameter scratch_size each.
 * - The LL128 area is as large as one half of the packet area.
 * - The put area has scratch_size bytes.
 *
 * No algorithm over several nodes uses LL128 or puts. A scratch for several nodes has no such areas, and the bulk area
 * has the room of the LL128 area besides its own. In the smallest scratch (mca/common/team/grow.h), the packet, bulk
 * and put areas are smaller.
 */
typedef struct {
    uint64_t packet_half; /* size of one half of the packet area */
    uint64_t bulk_offset; /* offsets are from the start of the scratch */
    uint64_t bulk_size;
    uint64_t put_offset;
    uint64_t put_size;
    uint64_t state_offset;
    uint64_t total; /* number of bytes to allocate */
} mscclpp_layout_t;

/* Divides a scratch for the parameter scratch_size: of a team on one node, or over several nodes. */
void mscclpp_layout_init(mscclpp_layout_t *layout, uint64_t scratch_size);
void mscclpp_layout_init_between(mscclpp_layout_t *layout, uint64_t scratch_size);

/* Divides a scratch into areas of the given sizes, in bytes, each rounded down to whole pages. */
void mscclpp_layout_divide(mscclpp_layout_t *layout, uint64_t packet_half, uint64_t bulk_size, uint64_t put_size);
void mscclpp_layout_divide_between(mscclpp_layout_t *layout, uint64_t packet_half, uint64_t bulk_size);

/* Returns the bytes from MSCCLPP_DEV_PACKET_OFFSET on that hold packets: the packet area and the LL128 area. */
uint64_t mscclpp_layout_packet_bytes(const mscclpp_layout_t *layout);

/* The inputs of the selector for one call. All values are equal on all ranks. */
typedef struct {
    uint64_t bytes;          /* size of the message */
    uint32_t nranks;         /* number of ranks on this node; with several nodes, the fields below are used instead */
    uint32_t nodes;          /* 0 or 1: all ranks are on one node */
    uint32_t shards;         /* with several nodes: the smallest number of ranks on a node */
    uint32_t max_node_ranks; /* with several nodes: the largest number of ranks on a node */
    uint32_t all_ranks;      /* with several nodes: number of ranks on all nodes */
    uint64_t slot_size;      /* with several nodes: number of bytes that a block exchanges at once */
    uint64_t packet_units;   /* with several nodes: number of units exchanged as packets at once; 0: no packets */
    const char *transport;   /* with several nodes: name of the transport; NULL: unknown */
    bool are_nodes_in_order; /* with several nodes: all ranks of a node are lower than those of the next one */
    bool is_one_host;        /* with several nodes: all of them are on one host, and exchange through its memory */
    bool hosts_can_meet;     /* with several nodes: the hosts of all nodes can meet before a kernel starts */
    mscclpp_dtype_t dtype;
    bool on_twin;         /* the kernels run on the host twin */
    bool is_one_gpu;      /* all ranks are on one GPU, and exchange data through its memory */
    bool in_place;        /* the caller passed MPI_IN_PLACE */
    bool may_use_engines; /* copy engines may serve this call */
    bool has_ll128;       /* the team's links deliver a line of 128 bytes as a whole */
    bool is_queued;       /* the call is queued in a stream, on all ranks; no lingering kernel serves it */
    /*
     * The host does not wait for the kernel, so the kernel must not depend on the host. Between nodes, a thread drives
     * the proxy. Within one node, the hosts exchange nothing for the call, except to map buffers.
     */
    bool is_early;
    bool is_size_unknown; /* only the sender and the receiver of a block know its size; the hosts do not exchange the
                             sizes */
    bool may_be_replayed; /* a CUDA graph may repeat the operation, so the hosts exchange nothing for it */
    bool may_exchange;    /* for an early call on one node: the hosts may exchange buffers for it */
    bool has_mapped;      /* for a queued call: the buffers of all ranks are mapped, or will be before it is queued */
    uint32_t block_limit; /* number of blocks that are guaranteed to run at the same time on every GPU of the team;
                             0 on the twin, which has no limit */
    const mscclpp_protocol_t *protocol;
    const mscclpp_layout_t *layout;
} mscclpp_select_input_t;

typedef struct mscclpp_algo mscclpp_algo_t;

/* The kernel and grid that serve one all-reduce. */
typedef struct {
    const mscclpp_algo_t *algo;
    mscclpp_dev_kernel_t kernel;
    uint32_t nblocks;  /* number of blocks of the grid */
    uint32_t nthreads; /* number of threads of a block */
    uint64_t epochs;   /* number of epochs (packet flags) that the kernel uses */
} mscclpp_choice_t;

/* One algorithm of all-reduce. */
struct mscclpp_algo {
    const char *name; /* the value of the parameter `algorithm` that forces this algorithm */
    const char *description;
    bool maps_buffers;              /* the kernel accesses the user buffers of all ranks, which must be mapped */
    bool sends_packets;             /* between nodes: data is sent as packets, not as tiles with signals */
    bool spans_nodes;               /* only for ranks on several nodes */
    bool uses_engines;              /* copy engines move the data (mca/common/engine/engine.h) */
    const mscclpp_algo_t *fallback; /* serves calls that this algorithm cannot serve; NULL: there is none */
    uint32_t pattern;               /* for ranks on several nodes: mscclpp_dev_nodes_pattern_t */

    /*
     * Fills in the kernel, grid and epochs of the choice. Has no other side effects. Returns false if the algorithm
     * cannot serve the call, for example because the team's scratch is too small for this number of ranks. *choice may
     * be changed even then.
     */
    bool (*shape)(const mscclpp_select_input_t *input, mscclpp_choice_t *choice);
};

/* The algorithms of all-reduce, which the files in mca/common/algo/allreduce define. */
extern const mscclpp_algo_t mscclpp_algo_allreduce_oneshot;
extern const mscclpp_algo_t mscclpp_algo_allreduce_oneshot_put;
extern const mscclpp_algo_t mscclpp_algo_allreduce_twophase;
extern const mscclpp_algo_t mscclpp_algo_allreduce_zerocopy;
extern const mscclpp_algo_t mscclpp_algo_allreduce_engines;
extern const mscclpp_algo_t mscclpp_algo_allreduce_scratch;
extern const mscclpp_algo_t mscclpp_algo_allreduce_nodes;
extern const mscclpp_algo_t mscclpp_algo_allreduce_nodes_split;
extern const mscclpp_algo_t mscclpp_algo_allreduce_nodes_ring;
extern const mscclpp_algo_t mscclpp_algo_allreduce_nodes_halving;
extern const mscclpp_algo_t mscclpp_algo_allreduce_nodes_trees;
extern const mscclpp_algo_t mscclpp_algo_allreduce_nodes_packets;
extern const mscclpp_algo_t mscclpp_algo_allreduce_nodes_doubling;

/* The registry: all algorithms. Parameters, rules and reports name an algorithm by its index in this array. */
extern const mscclpp_algo_t *const mscclpp_algos[];
extern const int mscclpp_algo_count;

/* Returns the index in the registry of the algorithm with this name, or -1 if there is none. */
int mscclpp_algo_find(const char *name);

/* How a grid divides a small number of units: among a few large blocks, or among many small ones. */
typedef enum { MSCCLPP_LARGE_BLOCKS, MSCCLPP_SMALL_BLOCKS } mscclpp_block_size_t;

/* The capacity of a grid whose number of threads has no limit. */
#define MSCCLPP_ANY_CAPACITY UINT64_MAX

/*
 * Fills in the numbers of blocks and threads of a choice; a helper for `shape`. Each thread gets at least one of the
 * `units`, if there are enough. The grid has at most `max_blocks` blocks and `capacity` threads in total. Parameters of
 * the user replace `max_blocks` and `block_size`, and the team's limit of blocks applies, too. Returns false, with
 * *choice unchanged, only if `capacity` is less than a warp (on the twin: than one thread).
 */
bool mscclpp_algo_choose_grid(const mscclpp_select_input_t *input, uint64_t units, uint32_t max_blocks,
                              uint64_t capacity, mscclpp_block_size_t block_size, mscclpp_choice_t *choice);

#endif
