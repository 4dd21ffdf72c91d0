/*
 * The algorithms of all-reduce, and what the choice between them depends on. To add one, write a kernel body in
 * device/kern, its identifier in device/types/launch.h, its row in both launchers, a file in mca/common/algo/allreduce
 * with its mscclpp_algo_t, and its line in registry.c.
 */
#ifndef MCA_COMMON_ALGO_ALGO_H
#define MCA_COMMON_ALGO_ALGO_H

#include <stdbool.h>
#include <stdint.h>

#include "device/launch/launch.h"

/* The most rules for one number of ranks on one kind of device. */
#define MSCCLPP_RULES_MAX 24

/* One rule of all-reduce from a rules file. */
typedef struct {
    uint64_t bytes;    /* the rule is for messages of up to this many bytes */
    int64_t algorithm; /* index in the registry, or mscclpp_rule_by_plan */
    uint64_t place;    /* mscclpp_rule_place_t */
    uint64_t nodes;    /* the rule is for ranks on so many nodes; 0: on one */
} mscclpp_rule_t;

/* Whether a rule is for calls with MPI_IN_PLACE, for calls without it, or for both. */
typedef enum { MSCCLPP_RULE_ANY_PLACE, MSCCLPP_RULE_IN_PLACE, MSCCLPP_RULE_OUT_OF_PLACE } mscclpp_rule_place_t;

/* From this value on, the `algorithm` of a rule stands for an execution plan (mscclpp_rule_by_plan). */
#define MSCCLPP_RULE_PLANS ((int64_t)1 << 62)

/*
 * The rules of all-reduce for one number of ranks on one kind of device. Plain bytes without padding; unused entries
 * are 0.
 */
typedef struct {
    uint64_t count;
    mscclpp_rule_t rule[MSCCLPP_RULES_MAX];
} mscclpp_rule_set_t;

/* The most rules for the collectives other than all-reduce, which share one set. */
#define MSCCLPP_COLL_RULES_MAX 96

/* One rule of another collective. */
typedef struct {
    uint64_t bytes;    /* the rule is for calls whose largest block has up to this many bytes */
    int64_t coll;      /* mscclpp_coll_t */
    int64_t algorithm; /* mscclpp_coll_algo_t, or mscclpp_rule_by_plan */
    uint64_t place;    /* mscclpp_rule_place_t */
    uint64_t nodes;    /* the rule is for ranks on so many nodes; 0: on one */
} mscclpp_coll_rule_t;

/* The rules of the other collectives, as in mscclpp_rule_set_t. */
typedef struct {
    uint64_t count;
    mscclpp_coll_rule_t rule[MSCCLPP_COLL_RULES_MAX];
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

/* The most collectives besides all-reduce (mca/common/base/colls.h). */
#define MSCCLPP_PROTOCOL_COLLS 24

/* Settings that change what ranks send one another. At bring-up all ranks take rank 0's values. Sent as plain bytes. */
typedef struct {
    int32_t algorithm;    /* index in the registry, -1 for the selector's choice, -2 to stage everything */
    int32_t packet_width; /* 128, 16, 8, or 0 for the algorithm's own choice */
    uint32_t max_blocks;  /* 0 for the algorithm's own choice */
    uint32_t max_threads; /* 0 for the algorithm's own choice */
    uint32_t twin_blocks; /* blocks of a grid on the twin */
    uint32_t twin_threads;
    uint64_t linger_max;                /* the largest message that lingering kernels serve, in bytes; 0: none */
    uint32_t linger_blocks;             /* blocks of a lingering kernel with more than one block */
    uint32_t zerocopy;                  /* 0: kernels and copy engines never access users' buffers of other ranks */
    uint32_t shared_gpu;                /* mscclpp_shared_gpu_t */
    uint64_t oneshot_max;               /* bytes, 0 for the built-in table */
    uint64_t twophase_max;              /* bytes, 0 for the built-in table */
    uint64_t put_max;                   /* bytes, 0 for the built-in table */
    uint64_t lines_min;                 /* bytes, 0 for the built-in table */
    uint64_t engine_min;                /* bytes, 0 for the built-in table */
    uint64_t engine_chunk;              /* bytes, 0 for the built-in table */
    uint64_t engine_scratch;            /* bytes of scratch for copy engines */
    uint64_t scratch_size;              /* bytes of the areas of a team's scratch; see mscclpp_layout_t */
    uint64_t epoch_limit;               /* epochs after which flags are renewed, and numbering starts again */
    mscclpp_rule_set_t rules;           /* all-reduce rules for the number of the team's ranks */
    mscclpp_coll_rule_set_t coll_rules; /* rules of the other collectives for that number */
    mscclpp_rule_figures_t figures[MSCCLPP_RULE_TRANSPORTS];
    uint32_t nodes_fanout;                          /* nodes that a rank sends to at a time; 0: any number */
    uint64_t nodes_packets_max;                     /* bytes, 0 for the built-in choice */
    uint64_t nodes_split_min;                       /* bytes, 0 for the built-in choice */
    uint64_t nodes_ring_min;                        /* bytes, 0 for the built-in choice */
    int32_t coll_algorithm[MSCCLPP_PROTOCOL_COLLS]; /* by mscclpp_coll_t: a mscclpp_coll_algo_t, or -1 or -2 as in
                                                       `algorithm` */
} mscclpp_protocol_t;

/* The parameter shared_gpu: whether ranks that share a GPU use kernels, or stage all calls. */
typedef enum { MSCCLPP_SHARED_GPU_AUTO, MSCCLPP_SHARED_GPU_KERNELS, MSCCLPP_SHARED_GPU_STAGE } mscclpp_shared_gpu_t;

/*
 * How a team's scratch is divided, in bytes, in this order: barrier words, the two halves of the packet area, the LL128
 * area, the bulk area, the put area, the state. The LL128 area is as large as one half of the packet area, and the bulk
 * area as large as both halves. The put area is as large as the packet and bulk areas together, which is the parameter
 * scratch_size. In the smallest scratch (mca/common/team/grow.h), the areas are smaller than that.
 */
typedef struct {
    uint64_t packet_half; /* size of one half of the packet area */
    uint64_t bulk_offset; /* offsets are from the start of the scratch */
    uint64_t bulk_size;
    uint64_t put_offset;
    uint64_t put_size;
    uint64_t state_offset;
    uint64_t total; /* bytes to allocate */
} mscclpp_layout_t;

/* Divides a scratch for the parameter scratch_size. */
void mscclpp_layout_init(mscclpp_layout_t *layout, uint64_t scratch_size);

/* Divides a scratch into areas of the given sizes, in bytes, each rounded down to whole pages. */
void mscclpp_layout_divide(mscclpp_layout_t *layout, uint64_t packet_half, uint64_t bulk_size, uint64_t put_size);

/* What the selector reads about a call: only values that are equal on all ranks. */
typedef struct {
    uint64_t bytes;          /* of the message */
    uint32_t nranks;         /* ranks on this node; with several nodes, the fields below count instead */
    uint32_t nodes;          /* 0 or 1: all ranks are on one node */
    uint32_t shards;         /* with several nodes: the fewest ranks on one node */
    uint32_t max_node_ranks; /* with several nodes: the most ranks on one node */
    uint32_t all_ranks;      /* with several nodes: number of ranks on all nodes */
    uint64_t slot_size;      /* with several nodes: bytes that a block exchanges at once */
    uint64_t packet_units;   /* with several nodes: units that ranks exchange as packets at once; 0: they cannot */
    const char *transport;   /* with several nodes: name of the transport; NULL: not known */
    bool is_one_host;        /* with several nodes: all nodes are on one host and exchange through its memory */
    bool hosts_can_meet;     /* with several nodes: their hosts can meet before a kernel starts */
    mscclpp_dtype_t dtype;
    bool on_twin;  /* the kernels run on the host twin */
    bool one_gpu;  /* all ranks are on one GPU, whose memory is the link between them */
    bool in_place; /* the caller passed MPI_IN_PLACE */
    bool engines;  /* copy engines may serve this call */
    bool ll128;    /* the team's links deliver a line of 128 bytes as a whole */
    bool queued;   /* the call is queued in a stream, on all ranks. No lingering kernel serves it. */
    /*
     * The host does not wait for the kernel. So the kernel must not wait for the host: between nodes the proxy has a
     * thread. Within one node, kernels work without exchanges of the hosts, except those that map buffers.
     */
    bool early;
    bool unsized;         /* only the two ends of a pair know the size of its block, and the hosts do not tell others */
    bool replayed;        /* a CUDA graph may repeat the operation, so the hosts exchange nothing for it */
    bool mapped;          /* of a queued call: the buffers of all ranks are mapped, or will be before it is queued */
    uint32_t block_limit; /* the most blocks that certainly run at the same time on every GPU of the team; 0 on the
                             twin, which has no limit */
    const mscclpp_protocol_t *protocol;
    const mscclpp_layout_t *layout;
} mscclpp_select_input_t;

typedef struct mscclpp_algo mscclpp_algo_t;

/* How a kernel serves one all-reduce. */
typedef struct {
    const mscclpp_algo_t *algo;
    mscclpp_dev_kernel_t kernel;
    uint32_t nblocks;  /* of the grid */
    uint32_t nthreads; /* of a block */
    uint64_t epochs;   /* epochs (packet flags) that the kernel uses */
} mscclpp_choice_t;

/* One algorithm of all-reduce. */
struct mscclpp_algo {
    const char *name; /* the value of the parameter `algorithm` that forces it */
    const char *description;
    bool maps_buffers;  /* the kernel accesses the user buffers of all ranks, so these must be mapped; where one
                           cannot be, `fallback` runs */
    bool sends_packets; /* between nodes: data travel as packets, not as tiles with signals */
    bool spans_nodes;   /* for ranks on several nodes only; where this algorithm cannot run, `fallback` runs */
    bool engines; /* copy engines move the data (mca/common/engine/engine.h); where they cannot, `fallback` runs */
    const mscclpp_algo_t *fallback; /* serves calls that this algorithm cannot serve; NULL: none does */
    uint32_t pattern;               /* for ranks on several nodes: mscclpp_dev_nodes_pattern_t */

    /*
     * Fills in the choice's kernel, grid and epochs for a message of any size. False if the team's scratch is too small
     * for this algorithm with that many ranks. Pure.
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
extern const mscclpp_algo_t mscclpp_algo_allreduce_nodes_packets;
extern const mscclpp_algo_t mscclpp_algo_allreduce_nodes_doubling;

/* The registry: all of them. Parameters, rules and reports give an algorithm by its index here. */
extern const mscclpp_algo_t *const mscclpp_algos[];
extern const int mscclpp_algo_count;

/* Returns the index of the algorithm with this name in the registry, or -1. */
int mscclpp_algo_find(const char *name);

/*
 * Fills in a grid; a helper for `shape`. Each thread handles at least one of the `units`. The grid has at most
 * `wanted_blocks` blocks, and at most `capacity` threads in all; a capacity of 0 stands for any number. `small_blocks`
 * divides few units among many small blocks. The parameters and the team's limit of blocks apply, too. False if even
 * one warp (on the twin: one thread) is too many.
 */
bool mscclpp_algo_grid(const mscclpp_select_input_t *input, uint64_t units, uint32_t wanted_blocks, uint64_t capacity,
                       bool small_blocks, mscclpp_choice_t *choice);

#endif
