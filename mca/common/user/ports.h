/*
 * The ports of a set of channels. They are shared by ports.c, which creates them, and handlers.c, which defines how
 * triggers are executed.
 */
#ifndef MCA_COMMON_USER_PORTS_H
#define MCA_COMMON_USER_PORTS_H

#include "mca/common/port/proxy.h"
#include "mca/common/user/internal.h"

typedef struct mscclpp_user_list mscclpp_user_list_t; /* private to handlers.c */

/* The connection to one peer. */
typedef struct {
    mscclpp_conn_t *conn;
    mscclpp_remote_t *remote; /* the peer's memory; NULL: the peer has none */
} mscclpp_user_link_t;

/* A handler of the application. */
typedef struct {
    mscclpp_user_handler_fn_t call;
    void *context;
} mscclpp_user_on_trigger_t;

struct mscclpp_user_ports {
    const mscclpp_transport_ops_t *ops;
    mscclpp_transport_t *transport;
    mscclpp_region_t *region; /* this rank's memory; NULL: this rank has none */
    mscclpp_proxy_t *proxy;
    bool is_serving;                     /* the proxy's thread executes the triggers that kernels push */
    uint64_t *tokens;                    /* this rank's tokens at the transport's address */
    uint64_t *device_tokens;             /* the same tokens at the kernels' address */
    bool has_host_tokens;                /* the tokens are in pinned host memory; false: in device memory */
    mscclpp_user_link_t *links;          /* connections, by peer number */
    mscclpp_dev_port_channel_t *views;   /* by channel index: the structure that kernels need */
    mscclpp_user_list_t **lists;         /* by channel index; NULL: the channel has no list */
    mscclpp_user_on_trigger_t *handlers; /* by channel index */
};

/* handlers.c: frees a list. NULL is allowed. */
void mscclpp_user_list_free(mscclpp_user_list_t *list);

#endif
