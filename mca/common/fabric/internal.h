/* What the files of the fabric share. */
#ifndef MCA_COMMON_FABRIC_INTERNAL_H
#define MCA_COMMON_FABRIC_INTERNAL_H

#include "device/types/nodes.h"
#include "mca/common/gpu/copier.h"
#include "mca/common/ctrl/ctrl.h"
#include "mca/common/fabric/fabric.h"
#include "mca/common/port/proxy.h"
#include "mca/common/base/shmseg.h"
#include "mca/common/transport/transport.h"

/* Memory that both kernels and a transport use: device memory, or pinned memory of the host. */
typedef struct {
    void *host;   /* as the transport sees it; NULL: none */
    void *device; /* as kernels see it */
    bool on_device;
    mscclpp_shmseg_t *segment; /* that it is; NULL: not shared */
} mscclpp_fabric_memory_t;

/* What is kept of another node. */
typedef struct {
    uint64_t exchanges;       /* its signals in all calls that have ended */
    mscclpp_conn_t *conn;     /* NULL for the own node */
    mscclpp_remote_t *remote; /* likewise */
} mscclpp_fabric_node_t;

/* On ranks that own no shard there is nothing but the node map. */
struct mscclpp_fabric {
    mscclpp_fabric_t *next; /* in the list of those that mscclpp_fabric_progress_all serves */
    mscclpp_fabric_t **link;
    mscclpp_runner_t *runner; /* of the ranks of this node */
    mscclpp_group_t *group;   /* the runner's */
    mscclpp_nodes_t nodes;
    mscclpp_config_t config; /* of the transport, which keeps its address */
    const mscclpp_gpu_ops_t *gpu;
    int device;
    const char *label;
    bool owner;
    uint64_t slot_size;
    uint64_t packets_offset; /* in the area */
    uint64_t packet_units;   /* of a slot for packets */
    uint64_t area_size;
    bool packets;        /* the transport of all ranks can carry them; equal on all ranks */
    uint32_t first_flag; /* of the packets of the call in hand; 0: it has none */

    const mscclpp_transport_ops_t *ops; /* of the transport in use, or last tried */
    mscclpp_transport_t *transport;
    bool lacks_descriptors;          /* this rank, for a transport that was given up for it */
    mscclpp_transport_place_t place; /* of the next two */
    mscclpp_fabric_memory_t tokens;
    mscclpp_fabric_memory_t area;
    mscclpp_region_t *region;
    mscclpp_fabric_node_t *node;            /* one for each node, behind this struct */
    bool maps;                              /* kernels reach other nodes' slots for packets */
    char *mapped[MSCCLPP_DEV_NODES_MAPPED]; /* as they see them */
    mscclpp_proxy_t *proxy;
    mscclpp_ctrl_t *ctrl; /* the group's, which outlives this; NULL: none */
    bool in_call;         /* atomic */
    bool failed;          /* atomic: nothing is sent any more but notices of that */

    /* Device memory, one allocation: what the signals waited for and the exchanges are counted in, and the channels. */
    char *state;
    uint64_t *expected;
    uint64_t *exchanged;
    mscclpp_dev_port_channel_t *channels;

    /* fabric/view.c: a copy of tokens in device memory, for those who wait long. */
    mscclpp_copier_t viewer;
    uint64_t *view;
    double viewed_at;     /* begun; the beginning of the wait if it has not been */
    uint64_t viewed_call; /* of `calls` */
    bool viewing;         /* a copy is under way */
    bool viewed;          /* `view` is of the call in hand */
    uint64_t calls;       /* so far, the one in hand included */
};

/* fabric/view.c: what it needs to look at the tokens. */
mscclpp_status_t mscclpp_fabric_open_view(mscclpp_fabric_t *fabric);
void mscclpp_fabric_close_view(mscclpp_fabric_t *fabric);

/* fabric/equip.c: makes the proxy, its channels, and what kernels keep between calls. */
mscclpp_status_t mscclpp_fabric_equip(mscclpp_fabric_t *fabric);

/* fabric/memory.c: zeroed memory at such a place. Freeing what was not allocated, or has been freed, is allowed. */
mscclpp_status_t mscclpp_fabric_allocate(mscclpp_fabric_t *fabric, mscclpp_transport_place_t place, uint64_t size,
                                         mscclpp_fabric_memory_t *memory);
void mscclpp_fabric_free_memory(mscclpp_fabric_t *fabric, mscclpp_fabric_memory_t *memory);

/* All peers have attached it, if it is shared. */
void mscclpp_fabric_hide_memory(mscclpp_fabric_memory_t *memory);

/* fabric/run.c: ends the transport, with its connections and all memory that it uses; another one may be opened then.
 */
void mscclpp_fabric_close_transport(mscclpp_fabric_t *fabric);
void mscclpp_fabric_enlist(mscclpp_fabric_t *fabric);

/* Names of ranks in the peer that a kernel's wait names: this much more than the rank, where it is of another node. */
#define MSCCLPP_FABRIC_FAR_PEER MSCCLPP_DEV_MAX_RANKS

#endif
