/* Declarations that the files of the fabric share. */
#ifndef MCA_COMMON_FABRIC_INTERNAL_H
#define MCA_COMMON_FABRIC_INTERNAL_H

#include "device/lib/nodes_rounds.h"
#include "device/lib/nodes_trees.h"
#include "device/types/nodes.h"
#include "mca/common/gpu/copier.h"
#include "mca/common/ctrl/ctrl.h"
#include "mca/common/fabric/fabric.h"
#include "mca/common/oob/vote.h"
#include "mca/common/port/proxy.h"
#include "mca/common/fabric/slabs.h"
#include "mca/common/transport/transport.h"

/* Memory that both kernels and a transport use: device memory or pinned host memory. */
typedef struct {
    void *host;           /* the transport's address of it; NULL: there is no memory */
    void *device;         /* the kernels' address of it */
    bool on_device;       /* it is device memory */
    mscclpp_slab_t *slab; /* the slab with this memory; NULL: it is not shared */
    bool is_hidden;       /* all peers have mapped it */
    bool is_part;         /* it belongs to other memory, which frees it */
} mscclpp_fabric_memory_t;

/*
 * A kind of links: the set of nodes with which an owner of a shard exchanges data. ALL: all nodes. STEPS: the nodes in
 * its list of steps. RING: its neighbours in a ring. Any number between STEPS and RING is a radix, and means the nodes
 * of rounds with this radix.
 */
typedef uint32_t mscclpp_fabric_links_t;
enum { MSCCLPP_FABRIC_ALL = 0, MSCCLPP_FABRIC_STEPS = 1, MSCCLPP_FABRIC_RING = 63 };

/* How an exchange area is divided. */
typedef struct {
    uint64_t slot_size;    /* bytes of a slot */
    uint64_t packet_units; /* size of a packet slot, in units */
    uint64_t sparse_units; /* number of units for places of sparse calls (device/kern/coll/nodes_rounds.h) */
} mscclpp_fabric_division_t;

/* An area that a larger one has replaced. */
typedef struct {
    mscclpp_fabric_memory_t area;
    mscclpp_region_t *region; /* NULL: none */
} mscclpp_fabric_retired_t;

/* What a fabric knows of one node. */
typedef struct {
    uint64_t exchanges;       /* number of signals from this node in all calls that have ended */
    mscclpp_conn_t *conn;     /* connection to the node; NULL: not linked */
    mscclpp_remote_t *remote; /* area of the node; NULL: not linked */
} mscclpp_fabric_node_t;

/* A node's list of steps. */
typedef struct {
    mscclpp_dev_step_t step[MSCCLPP_DEV_NODES_STEPS]; /* the list, for the host */
    mscclpp_dev_steps_t kernel; /* description of the list for kernels; valid once the fabric is equipped */
} mscclpp_fabric_steps_t;

/*
 * A card: an owner sends it to an owner of another node. It has the key of the sender's area, and the address of the
 * sender's end of the connection.
 */
typedef struct {
    uint64_t ahead;      /* id of the exchange ahead of an all-gather (mscclpp_oob_ahead_t); 0: it is not sent so */
    uint32_t key_length; /* 0: the sender's area cannot be accessed */
    uint32_t address_length;
    unsigned char bytes[MSCCLPP_TRANSPORT_KEY_MAX + MSCCLPP_TRANSPORT_ADDRESS_MAX]; /* the key, then the address */
} mscclpp_fabric_card_t;

/* The partners of this rank: the nodes to be connected. The arrays have `count` entries. */
typedef struct {
    int *nodes;
    int *peers; /* the owners on these nodes, as ranks of the communicator */
    int count;
    size_t *lengths; /* sizes in bytes of the cards in `sent` */
    mscclpp_fabric_card_t *sent;
    mscclpp_fabric_card_t *received;
} mscclpp_fabric_partners_t;

/* Ranks that own no shard use only the node map and the lists by rank. */
struct mscclpp_fabric {
    mscclpp_fabric_t *next;          /* next fabric in the list of mscclpp_fabric_progress_all */
    mscclpp_fabric_t **link_in_list; /* the pointer to this fabric in that list; NULL: the fabric is not in the list */
    mscclpp_runner_t *runner;        /* the runner of this node */
    mscclpp_group_t *group;          /* the runner's group */
    mscclpp_nodes_t nodes;
    mscclpp_config_t config; /* copy for the transport, which keeps a pointer to it */
    const mscclpp_gpu_ops_t *gpu;
    int device;
    mscclpp_loss_t loss; /* describes the first peer whose connection was lost */
    const char *label;
    bool is_owner;              /* this rank owns a shard, so it exchanges data with other nodes */
    mscclpp_fabric_size_t size; /* of `area`; equal on all ranks, as are the next three fields */
    mscclpp_fabric_division_t division;
    uint64_t packets_offset; /* offset of the packet slots in the area, which the places of sparse calls follow */
    uint64_t area_size;      /* bytes of `area` */
    bool has_packets;        /* the transport of all ranks can carry packets; equal on all ranks */
    uint32_t first_flag;     /* first flag of the packets of the current call; 0: the call uses no packets */
    bool is_joined;          /* the current call's kernel uses only ports of joined memory (fabric/join.c) */

    const mscclpp_transport_ops_t *ops; /* functions of the transport that is used, or was tried last */
    mscclpp_transport_t *transport;
    bool lacks_descriptors;          /* a transport was given up because this rank ran out of descriptors */
    mscclpp_transport_place_t place; /* of `tokens` and `area` */
    mscclpp_fabric_memory_t tokens;  /* counters of arrived signals */
    mscclpp_fabric_memory_t area;    /* slots that other nodes put data and packets into */
    mscclpp_region_t *region;        /* of the area */
    mscclpp_fabric_retired_t retired[MSCCLPP_FABRIC_FULL - MSCCLPP_FABRIC_SMALL]; /* one for each growth */
    int retired_count;
    mscclpp_fabric_node_t *node;            /* one per node; allocated after this struct */
    uint64_t linked;                        /* bit i: the links of kind i are connected; equal on all ranks */
    mscclpp_fabric_partners_t ahead;        /* whom mscclpp_fabric_begin connects with; empty after the set-up */
    bool is_mapped;                         /* kernels can access the packet slots of other nodes */
    char *mapped[MSCCLPP_DEV_NODES_MAPPED]; /* these slots at the kernels' addresses */
    mscclpp_proxy_t *proxy;
    mscclpp_ctrl_t *ctrl; /* control messages of the group; outlives this struct; NULL: there are none */
    bool in_call;         /* atomic: a call runs, and its thread progresses the proxy */
    bool failed;          /* atomic: the team has failed, and from now on sends only notices about that */

    /*
     * One allocation in device memory: counters of expected signals, of exchanges and of sparse calls, the channels,
     * and the steps.
     */
    char *state;
    uint64_t *expected;
    uint64_t *exchanged;
    mscclpp_dev_nodes_sparse_t *sparse;
    mscclpp_dev_port_channel_t *channels;
    mscclpp_dev_step_t *device_steps;
    mscclpp_fabric_steps_t doubling, halving; /* the lists of steps of these two patterns */
    uint32_t pattern;                         /* pattern of the current call (mscclpp_dev_nodes_pattern_t) */
    mscclpp_dev_tree_place_t trees;           /* if the pattern is TREES: this node's place; `tree` is not set */
    uint32_t coll_blocks;                     /* number of blocks of the current call's grid, if coll_tiles is not 0 */
    uint64_t coll_tiles; /* tiles of the current call; 0: it has packets, or is an all-reduce in another pattern than
                            TREES */

    mscclpp_dev_rounds_t rounds; /* rounds in which the current call sends its packets; radix 0: none */
    uint64_t pitch;              /* number of units of a place for packets in these rounds */
    bool carries;                /* this owner's messages in these rounds have data; false: they are empty */
    bool is_sparse;              /* these rounds have no empty messages */
    uint64_t first_place;        /* in these rounds: units from the start of the packet slots to the first place */
    uint64_t sparse_used; /* units of the places of sparse calls in use, as kernels count them; equal on all ranks */

    /* fabric/places.c */
    void *places; /* lists by rank, in device memory */
    void *lists;  /* in host memory: lists of blocks that differ in size; NULL: no call has needed them yet */

    /* fabric/view.c: a host copy of tokens in device memory, for long waits. */
    mscclpp_copier_t viewer;
    uint64_t *view;       /* the copy */
    double viewed_at;     /* start of the last copy or, before the first copy, of the wait (mscclpp_now) */
    uint64_t viewed_call; /* number of the call to which these fields apply, as counted by `calls` */
    bool is_copying;      /* a copy is in flight */
    bool has_view;        /* `view` was copied in the current call */
    uint64_t calls;       /* number of calls so far, including the current one */
};

/*
 * fabric/view.c: create and free the resources for looking at the tokens. After an error the caller frees the rest with
 * mscclpp_fabric_close_view. Errors are logged.
 */
mscclpp_status_t mscclpp_fabric_open_view(mscclpp_fabric_t *fabric);
void mscclpp_fabric_close_view(mscclpp_fabric_t *fabric);

/*
 * fabric/places.c: allocate, fill in and free the lists by rank. After an error the caller frees the rest with
 * mscclpp_fabric_close_places.
 */
mscclpp_status_t mscclpp_fabric_open_places(mscclpp_fabric_t *fabric);
void mscclpp_fabric_close_places(mscclpp_fabric_t *fabric);

/*
 * Fills in those arguments of a kernel that number the ranks of all nodes. Also copies the lists of blocks if the
 * blocks differ.
 */
mscclpp_status_t mscclpp_fabric_fill_places(mscclpp_fabric_t *fabric, mscclpp_dev_coll_nodes_args_t *args);

/* fabric/steps.c: fills in the lists of steps of this node. If there are too many nodes for a list, it is empty. */
void mscclpp_fabric_list_steps(mscclpp_fabric_t *fabric);

/* fabric/steps.c: returns the list of a pattern (mscclpp_dev_nodes_pattern_t), or NULL if the pattern has none. */
const mscclpp_fabric_steps_t *mscclpp_fabric_steps(const mscclpp_fabric_t *fabric, uint32_t pattern);

/* fabric/steps.c: returns the number of bytes that all lists take in device memory. */
size_t mscclpp_fabric_steps_size(void);

/* fabric/steps.c: copies all lists to device memory, in the order of `stream`. */
mscclpp_status_t mscclpp_fabric_copy_steps(mscclpp_fabric_t *fabric, mscclpp_gpu_stream_t *stream);

/*
 * fabric/steps.c: returns the number of signals from a node in the current call, which is not an all-reduce and has
 * tiles.
 */
uint64_t mscclpp_fabric_count_signals(const mscclpp_fabric_t *fabric, uint32_t node);

/* fabric/steps.c: returns the number of messages in a list that come from a node. */
uint64_t mscclpp_fabric_count_messages(const mscclpp_fabric_steps_t *steps, uint32_t node);

/*
 * fabric/equip.c: creates the proxy and the state that kernels keep between calls. After an error, which is logged, the
 * caller frees the rest with mscclpp_fabric_unequip.
 */
mscclpp_status_t mscclpp_fabric_equip(mscclpp_fabric_t *fabric);

/* fabric/equip.c: frees the proxy and the state, if they exist. */
void mscclpp_fabric_unequip(mscclpp_fabric_t *fabric);

/*
 * fabric/link.c: connects this rank with the nodes of a kind of links, as far as it is not connected yet, in two steps.
 * The ranks vote between the steps, because a rank that has failed may not know its partners, which would wait for it.
 *
 * mscclpp_fabric_link_open finds the partners, and creates this rank's ends of the connections. The caller frees the
 * partners, also after an error. If all ranks have succeeded, mscclpp_fabric_link_join exchanges the cards, connects,
 * and votes. It is collective over all ranks. It returns an error only if the vote itself fails; *vote_p tells
 * whether all ranks succeeded. All links are destroyed with the transport.
 */
mscclpp_status_t mscclpp_fabric_link_open(mscclpp_fabric_t *fabric, mscclpp_fabric_links_t links,
                                          mscclpp_fabric_partners_t *partners);
mscclpp_status_t mscclpp_fabric_link_join(mscclpp_fabric_t *fabric, mscclpp_fabric_links_t links,
                                          const mscclpp_fabric_partners_t *partners, mscclpp_vote_t *vote_p);

/*
 * Two parts of mscclpp_fabric_link_join.
 *
 * mscclpp_fabric_link_connect connects this rank's ends once the partners' cards have come, and creates the channels.
 * Returns its own status: MSCCLPP_ERR_PEER, unlogged, if a partner has sent no card or an invalid one, or the first
 * error of a step, which has logged it. Ends and channels that were made are destroyed with the transport.
 *
 * mscclpp_fabric_link_note notes that all ranks have succeeded.
 */
mscclpp_status_t mscclpp_fabric_link_connect(mscclpp_fabric_t *fabric, const mscclpp_fabric_partners_t *partners);
void mscclpp_fabric_link_note(mscclpp_fabric_t *fabric, mscclpp_fabric_links_t links);
/* Frees the lists and the cards, which may be incomplete, and zeroes *partners. May be called again. */
void mscclpp_fabric_free_partners(mscclpp_fabric_partners_t *partners);

/*
 * Tells the other ranks that this rank cannot connect, if they do not know that yet. Takes the place of
 * mscclpp_fabric_link_join. `own_status` is the reason, and `hint` tells which ranks would wait.
 */
mscclpp_status_t mscclpp_fabric_link_decline(const mscclpp_oob_t *oob, const mscclpp_fabric_hint_t *hint,
                                             mscclpp_status_t own_status, mscclpp_vote_t *vote_p);

/*
 * Lists the ranks with which links of this kind connect this rank, whether or not they are connected already. There are
 * none if this rank owns no shard. The caller frees the list. MSCCLPP_ERR_NO_MEMORY is not logged.
 */
mscclpp_status_t mscclpp_fabric_list_peers(const mscclpp_fabric_t *fabric, mscclpp_fabric_links_t links, int **peers_p,
                                           int *count_p);

/* Does both steps, with the vote between them. Errors are those of mscclpp_fabric_link_join. */
mscclpp_status_t mscclpp_fabric_link(mscclpp_fabric_t *fabric, mscclpp_fabric_links_t links, mscclpp_vote_t *vote_p);

/* Returns the kind of links that an all-reduce uses. */
mscclpp_fabric_links_t mscclpp_fabric_links_of(const mscclpp_algo_t *algo);

/*
 * Connects the links that a call needs, before the call, unless they are connected. Collective. All errors are logged,
 * and break the team:
 *
 * - If this rank fails to connect, returns its error.
 * - If another rank fails, returns MSCCLPP_ERR_PEER. Names that rank in a log line for information.
 * - If a vote itself fails, returns its error.
 * - If a lingering kernel does not end, returns MSCCLPP_ERR_DEVICE, on this rank alone.
 */
mscclpp_status_t mscclpp_fabric_link_for_call(mscclpp_fabric_t *fabric, mscclpp_fabric_links_t links);

/*
 * fabric/memory.c: allocate `size` bytes of zeroed memory at `place`, and free them. After an error of
 * mscclpp_fabric_allocate, *memory is unchanged. mscclpp_fabric_free_memory does nothing if the memory does not exist
 * or has been freed.
 */
mscclpp_status_t mscclpp_fabric_allocate(mscclpp_fabric_t *fabric, mscclpp_transport_place_t place, uint64_t size,
                                         mscclpp_fabric_memory_t *memory);
void mscclpp_fabric_free_memory(mscclpp_fabric_t *fabric, mscclpp_fabric_memory_t *memory);

/* Sets *part to the part of `whole` from `offset` on. Freeing the part does nothing. */
void mscclpp_fabric_cut(const mscclpp_fabric_memory_t *whole, uint64_t offset, mscclpp_fabric_memory_t *part);

/*
 * Notes that all peers have mapped this memory, so that it needs no file descriptor any more. Does nothing for memory
 * that is not shared, or the second time.
 */
void mscclpp_fabric_hide_memory(mscclpp_fabric_memory_t *memory);

/*
 * fabric/run.c: closes the transport with its connections, and frees the memory that it uses. Another transport may be
 * opened after that.
 */
void mscclpp_fabric_close_transport(mscclpp_fabric_t *fabric);

/* fabric/area.c: computes how the first area is divided, from values that are equal on all ranks. */
void mscclpp_fabric_divide_area(mscclpp_fabric_t *fabric);

/*
 * fabric/area.c: chooses who moves packets: kernels by stores, or the proxy. Each owner chooses for itself, as
 * receivers see no difference. Call it on each rank that owns a shard when its remotes are new. Logs the choice, at the
 * info level if `at_info` is set, and at the debug level otherwise. If the transport of some rank carries no packets
 * (has_packets), nothing is mapped or logged.
 */
void mscclpp_fabric_choose_packet_mover(mscclpp_fabric_t *fabric, bool at_info);

/* fabric/run.c: adds a fabric to those that mscclpp_fabric_progress_all serves. */
void mscclpp_fabric_enlist(mscclpp_fabric_t *fabric);

/*
 * fabric/run.c: waits until the data of the last calls has arrived, because closing connections drops data in flight.
 * Gives up after a second, in case a peer makes no progress. The data has at least reached the network then.
 */
void mscclpp_fabric_await_delivery(mscclpp_fabric_t *fabric);

/*
 * A kernel that gives up reports the peer for which it waited. For a rank of another node, this constant is added to
 * the peer's number.
 */
#define MSCCLPP_FABRIC_FAR_PEER MSCCLPP_DEV_MAX_RANKS

#endif
