/* Internals that the files of the fabric share. */
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
    mscclpp_slab_t *slab; /* that it is a piece of; NULL: it is not shared */
    bool is_hidden;       /* all peers have mapped it */
    bool is_part;         /* it belongs to other memory, which frees it */
} mscclpp_fabric_memory_t;

/*
 * A kind of links: which nodes an owner of a shard exchanges with. These are all nodes, those of its list of steps, or
 * its neighbours in a ring; any number in between is a radix, and stands for the nodes of rounds with this radix.
 */
typedef uint32_t mscclpp_fabric_links_t;
enum { MSCCLPP_FABRIC_ALL = 0, MSCCLPP_FABRIC_STEPS = 1, MSCCLPP_FABRIC_RING = 63 };

/* How an exchange area is divided. */
typedef struct {
    uint64_t slot_size;    /* bytes of a slot */
    uint64_t packet_units; /* size of a packet slot, in units */
} mscclpp_fabric_division_t;

/* An area that a larger one has replaced. */
typedef struct {
    mscclpp_fabric_memory_t area;
    mscclpp_region_t *region; /* NULL: none */
} mscclpp_fabric_retired_t;

/* What a fabric knows of one node. */
typedef struct {
    uint64_t exchanges;       /* signals from this node in all calls that have ended */
    mscclpp_conn_t *conn;     /* NULL: not linked */
    mscclpp_remote_t *remote; /* its area; NULL: not linked */
} mscclpp_fabric_node_t;

/* A node's list of steps. */
typedef struct {
    mscclpp_dev_step_t step[MSCCLPP_DEV_NODES_STEPS]; /* the list, for the host */
    mscclpp_dev_steps_t kernel; /* its description for kernels, which have the list once the fabric is equipped */
} mscclpp_fabric_steps_t;

/* Ranks that own no shard use only the node map and the lists by rank. */
struct mscclpp_fabric {
    mscclpp_fabric_t *next;          /* in the list of those that mscclpp_fabric_progress_all serves */
    mscclpp_fabric_t **link_in_list; /* what points to this fabric in that list; NULL: it is not in it */
    mscclpp_runner_t *runner;        /* of the ranks of this node */
    mscclpp_group_t *group;          /* the runner's */
    mscclpp_nodes_t nodes;
    mscclpp_config_t config; /* for the transport, which keeps a pointer to it */
    const mscclpp_gpu_ops_t *gpu;
    int device;
    mscclpp_loss_t loss; /* the first peer that the connections have lost */
    const char *label;
    bool is_owner;              /* this rank owns a shard, so it exchanges data with other nodes */
    mscclpp_fabric_size_t size; /* of `area`; equal on all ranks, as are the next three fields */
    mscclpp_fabric_division_t division;
    uint64_t packets_offset; /* offset of the packet slots in the area */
    uint64_t area_size;      /* bytes of `area` */
    bool has_packets;        /* the transport of all ranks can carry packets; equal on all ranks */
    uint32_t first_flag;     /* of the packets of the current call; 0: it uses none */
    bool is_joined;          /* the current call's kernel uses only ports of joined memory (fabric/join.c) */

    const mscclpp_transport_ops_t *ops; /* of the transport in use, or last tried */
    mscclpp_transport_t *transport;
    bool lacks_descriptors;          /* a transport was given up because this rank ran out of descriptors */
    mscclpp_transport_place_t place; /* of `tokens` and `area` */
    mscclpp_fabric_memory_t tokens;  /* counters of arrived signals */
    mscclpp_fabric_memory_t area;    /* slots that other nodes put data and packets into */
    mscclpp_region_t *region;        /* of the area */
    mscclpp_fabric_retired_t retired[MSCCLPP_FABRIC_FULL - MSCCLPP_FABRIC_SMALL]; /* one for each growth */
    int retired_count;
    mscclpp_fabric_node_t *node;            /* one per node; allocated after this struct */
    uint64_t linked;                        /* bit i: the links of kind i are there; equal on all ranks */
    bool is_mapped;                         /* kernels reach the packet slots of other nodes */
    char *mapped[MSCCLPP_DEV_NODES_MAPPED]; /* the kernels' addresses of these slots */
    mscclpp_proxy_t *proxy;
    mscclpp_ctrl_t *ctrl; /* the group's; outlives this struct; NULL: none */
    bool in_call;         /* atomic: a call runs, whose thread progresses the proxy */
    bool failed;          /* atomic: the team has failed, and sends only notices of that any more */

    /* One allocation in device memory: counters of expected signals and of exchanges, the channels, and the steps. */
    char *state;
    uint64_t *expected;
    uint64_t *exchanged;
    mscclpp_dev_port_channel_t *channels;
    mscclpp_dev_step_t *device_steps;
    mscclpp_fabric_steps_t doubling, halving; /* the lists of these two patterns */
    uint32_t pattern;                         /* of the current call (mscclpp_dev_nodes_pattern_t) */
    mscclpp_dev_trees_t trees;                /* this node's place, if that is TREES; its tree is not set */
    uint32_t coll_blocks;                     /* of the grid of the current call, if it is no all-reduce */
    uint64_t coll_tiles; /* of the current call if it is no all-reduce and uses no packets; else 0 */

    mscclpp_dev_rounds_t rounds; /* in which the current call's packets go; radix 0: it does not send in rounds */
    uint64_t pitch;              /* units of a place for packets in these rounds */
    bool carries;                /* this owner's messages have data in these rounds; else they are empty */

    /* fabric/places.c */
    void *places; /* lists by rank, in device memory */
    void *lists;  /* in host memory, those of blocks that differ in size; NULL: no call has had any yet */

    /* fabric/view.c: a host copy of tokens in device memory, for long waits. */
    mscclpp_copier_t viewer;
    uint64_t *view;       /* the copy */
    double viewed_at;     /* when the last copy was started; before the first, when the wait began (mscclpp_now) */
    uint64_t viewed_call; /* the call that this applies to, as counted by `calls` */
    bool is_copying;      /* a copy is in flight */
    bool has_view;        /* `view` was copied in the current call */
    uint64_t calls;       /* calls so far, including the current one */
};

/*
 * fabric/view.c: creates and frees what it needs to look at the tokens. What was made before an error is left for
 * mscclpp_fabric_close_view.
 */
mscclpp_status_t mscclpp_fabric_open_view(mscclpp_fabric_t *fabric);
void mscclpp_fabric_close_view(mscclpp_fabric_t *fabric);

/*
 * fabric/places.c: allocates, fills and frees the lists by rank. What was made before an error is left for
 * mscclpp_fabric_close_places.
 */
mscclpp_status_t mscclpp_fabric_open_places(mscclpp_fabric_t *fabric);
void mscclpp_fabric_close_places(mscclpp_fabric_t *fabric);

/* Fills in a kernel's arguments that number the ranks of all nodes, and copies the blocks if these differ. */
mscclpp_status_t mscclpp_fabric_place(mscclpp_fabric_t *fabric, mscclpp_dev_coll_nodes_args_t *args);

/* fabric/steps.c: lists the steps of this node. With too many nodes for a schedule there are none. */
void mscclpp_fabric_list_steps(mscclpp_fabric_t *fabric);

/* fabric/steps.c: the list of a pattern (mscclpp_dev_nodes_pattern_t); NULL if it has none. */
const mscclpp_fabric_steps_t *mscclpp_fabric_steps(const mscclpp_fabric_t *fabric, uint32_t pattern);

/* fabric/steps.c: returns the bytes that all lists take in device memory. */
size_t mscclpp_fabric_steps_size(void);

/* fabric/steps.c: copies all lists to device memory, in the order of `stream`. */
mscclpp_status_t mscclpp_fabric_copy_steps(mscclpp_fabric_t *fabric, mscclpp_gpu_stream_t *stream);

/* fabric/steps.c: how many signals come from a node in the current call, which is no all-reduce and has tiles. */
uint64_t mscclpp_fabric_count_signals(const mscclpp_fabric_t *fabric, uint32_t node);

/* fabric/steps.c: how many messages of a list come from a node. */
uint64_t mscclpp_fabric_count_messages(const mscclpp_fabric_steps_t *steps, uint32_t node);

/*
 * fabric/equip.c: creates the proxy and the state that kernels keep between calls. What was made before an error is
 * left for mscclpp_fabric_unequip.
 */
mscclpp_status_t mscclpp_fabric_equip(mscclpp_fabric_t *fabric);

/* fabric/equip.c: frees both, as far as they are there. */
void mscclpp_fabric_unequip(mscclpp_fabric_t *fabric);

/* What an owner tells one of another node: the key of its area, and the address of its end of the connection. */
typedef struct {
    uint32_t key_length; /* 0: its area cannot be reached */
    uint32_t address_length;
    unsigned char bytes[MSCCLPP_TRANSPORT_KEY_MAX + MSCCLPP_TRANSPORT_ADDRESS_MAX]; /* the key, then the address */
} mscclpp_fabric_card_t;

/* The nodes that are to be connected with. Arrays of `count` entries. */
typedef struct {
    int *nodes;
    int *peers; /* the owners there, as ranks of the communicator */
    int count;
    size_t *lengths; /* bytes of the cards in `sent` */
    mscclpp_fabric_card_t *sent;
    mscclpp_fabric_card_t *received;
} mscclpp_fabric_partners_t;

/*
 * fabric/link.c: connects this rank with the nodes of such links that it is not connected with yet, in two steps.
 * Between them the ranks vote, because a rank that has failed may not know its partners, which would wait for it.
 *
 * link_open finds the partners, and makes this rank's ends of the connections. The caller frees the partners, also
 * after an error. link_join, if all ranks have succeeded, exchanges and connects, and votes. It is collective over all
 * ranks. It returns an error only if the exchange itself fails; *vote_p tells whether all ranks succeeded. All links
 * are destroyed with the transport.
 */
mscclpp_status_t mscclpp_fabric_link_open(mscclpp_fabric_t *fabric, mscclpp_fabric_links_t links,
                                          mscclpp_fabric_partners_t *partners);
mscclpp_status_t mscclpp_fabric_link_join(mscclpp_fabric_t *fabric, mscclpp_fabric_links_t links,
                                          const mscclpp_fabric_partners_t *partners, mscclpp_vote_t *vote_p);
void mscclpp_fabric_free_partners(mscclpp_fabric_partners_t *partners);

/*
 * In place of link_join for a rank that cannot connect, where the others do not know that yet. `own_status` is the
 * reason, and `hint` tells which ranks would wait.
 */
mscclpp_status_t mscclpp_fabric_link_decline(const mscclpp_oob_t *oob, const mscclpp_fabric_hint_t *hint,
                                             mscclpp_status_t own_status, mscclpp_vote_t *vote_p);

/*
 * Lists the ranks that links of this kind connect this rank with, whether or not they do already. The caller frees the
 * list. MSCCLPP_ERR_NO_MEMORY is not logged.
 */
mscclpp_status_t mscclpp_fabric_list_peers(const mscclpp_fabric_t *fabric, mscclpp_fabric_links_t links, int **peers_p,
                                           int *count_p);

/* Both steps, with the vote between them; else as link_join. */
mscclpp_status_t mscclpp_fabric_link(mscclpp_fabric_t *fabric, mscclpp_fabric_links_t links, mscclpp_vote_t *vote_p);

/* Returns the kind of links that an all-reduce uses. */
mscclpp_fabric_links_t mscclpp_fabric_links_of(const mscclpp_algo_t *algo);

/*
 * Makes sure, before a call, that the links that it uses are there, and connects nodes if they are not. Collective. If
 * a rank fails to connect, it logs an error and returns it, and all others return MSCCLPP_ERR_PEER and log the rank as
 * information. Returns an error of the exchange as it is, and MSCCLPP_ERR_DEVICE, on this rank alone, if a lingering
 * kernel does not end.
 */
mscclpp_status_t mscclpp_fabric_link_for_call(mscclpp_fabric_t *fabric, mscclpp_fabric_links_t links);

/*
 * fabric/memory.c: allocates `size` bytes of zeroed memory at `place`. After an error *memory stays as it is. To free
 * memory that is not there (any more) does nothing.
 */
mscclpp_status_t mscclpp_fabric_allocate(mscclpp_fabric_t *fabric, mscclpp_transport_place_t place, uint64_t size,
                                         mscclpp_fabric_memory_t *memory);
void mscclpp_fabric_free_memory(mscclpp_fabric_t *fabric, mscclpp_fabric_memory_t *memory);

/* Makes *part what lies from `offset` on in `whole`. To free it does nothing. */
void mscclpp_fabric_cut(const mscclpp_fabric_memory_t *whole, uint64_t offset, mscclpp_fabric_memory_t *part);

/* Says that all peers have mapped shared memory. May be repeated. */
void mscclpp_fabric_hide_memory(mscclpp_fabric_memory_t *memory);

/*
 * fabric/run.c: closes the transport with its connections, and frees the memory that it uses. Another transport may be
 * opened afterwards.
 */
void mscclpp_fabric_close_transport(mscclpp_fabric_t *fabric);

/* fabric/area.c: computes how the first area is divided, from values that are equal on all ranks. */
void mscclpp_fabric_divide_area(mscclpp_fabric_t *fabric);

/*
 * fabric/area.c: chooses who moves packets: kernels by stores, or the proxy. To be called whenever there are new
 * remotes. Logs the choice, for users to see if `is_info` is set.
 */
void mscclpp_fabric_choose_stores(mscclpp_fabric_t *fabric, bool is_info);

/* fabric/run.c: adds a fabric to those that mscclpp_fabric_progress_all serves. */
void mscclpp_fabric_enlist(mscclpp_fabric_t *fabric);

/*
 * fabric/run.c: waits until the data of the last calls have arrived, because closing connections drops data in flight.
 * Gives up after a second, in case a peer makes no progress; the data have at least reached the network then.
 */
void mscclpp_fabric_await_delivery(mscclpp_fabric_t *fabric);

/* A kernel that gives up reports the peer it waited for. For a rank of another node, this is added to its number. */
#define MSCCLPP_FABRIC_FAR_PEER MSCCLPP_DEV_MAX_RANKS

#endif
