/* The ports of a set of channels, for ports.c, which makes them, and handlers.c, which says what they carry out. */
#ifndef MCA_COMMON_USER_PORTS_H
#define MCA_COMMON_USER_PORTS_H

#include "mca/common/port/proxy.h"
#include "mca/common/user/internal.h"

typedef struct mscclpp_user_list mscclpp_user_list_t; /* private to handlers.c */

/* The connection to one peer. */
typedef struct {
    mscclpp_conn_t *conn;
    mscclpp_remote_t *remote; /* its memory; NULL: it has none */
} mscclpp_user_link_t;

/* A handler of the application. */
typedef struct {
    mscclpp_user_handler_fn_t call;
    void *context;
} mscclpp_user_on_trigger_t;

struct mscclpp_user_ports {
    const mscclpp_transport_ops_t *ops;
    mscclpp_transport_t *transport;
    mscclpp_region_t *region; /* this rank's memory; NULL: it has none */
    mscclpp_proxy_t *proxy;
    bool is_serving;                     /* its thread carries out what kernels push */
    uint64_t *tokens;                    /* the transport's address of this rank's tokens */
    uint64_t *device_tokens;             /* the kernels' address */
    bool has_host_tokens;                /* they lie in pinned host memory; false: in device memory */
    mscclpp_user_link_t *links;          /* by peer number */
    mscclpp_dev_port_channel_t *views;   /* by index: what kernels need of the channel */
    mscclpp_user_list_t **lists;         /* by index; NULL: none */
    mscclpp_user_on_trigger_t *handlers; /* by index */
};

/* handlers.c. NULL is allowed. */
void mscclpp_user_list_free(mscclpp_user_list_t *list);

#endif
