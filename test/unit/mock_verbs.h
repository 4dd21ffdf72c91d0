/*
 * A libibverbs within one process, for tests that no HCA at hand allows: posting to a queue pair copies memory. It is a
 * shared object that the parameter verbs_library names. It is not thread-safe. A program that does not set mock_verbs
 * finds no device, or, with MOCK_VERBS_USELESS in the environment, one device that makes no queue pairs.
 */
#ifndef TEST_UNIT_MOCK_VERBS_H
#define TEST_UNIT_MOCK_VERBS_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#define MOCK_DEVICES_MAX 4

/* What the test sets, and what it reads. The process has one, which the symbol mock_verbs names. */
typedef struct {
    int devices;
    int atomic_cap;
    int link_layer;
    int link_layers[MOCK_DEVICES_MAX];   /* of single devices; 0: link_layer */
    const char *paths[MOCK_DEVICES_MAX]; /* in sysfs; NULL: none */
    uint32_t max_message;                /* bytes */
    uint32_t max_inline;                 /* bytes; more is refused when a queue pair is made */
    uint32_t max_depth;                  /* work requests of a send queue, though the device says more; 0: as it says */
    int rate[MOCK_DEVICES_MAX];          /* code of the speed */
    int width[MOCK_DEVICES_MAX];         /* code of the width; 0: that of 4 lanes */
    bool active[MOCK_DEVICES_MAX];
    union ibv_gid gids[4]; /* of every port; zero: none */
    int gid_types[4];
    uint16_t pkeys[4];                /* of every port */
    int port_flags[MOCK_DEVICES_MAX]; /* IBV_QPF_... */
    bool dmabuf;                      /* registration of dma-bufs works */
    bool peermem;                     /* registration of addresses below `foreign_end` works */
    uintptr_t foreign;                /* memory that counts as a device's: [foreign, foreign_end) */
    uintptr_t foreign_end;
    bool fork_safe;   /* pages of registered memory are kept from children, as ibv_fork_init does */
    bool held;        /* completions stay where they are */
    int fail_after;   /* the nth work request from now fails; 0: none does */
    int fail_status;  /* enum ibv_wc_status of it */
    int refuse_after; /* the nth call of post_send from now is refused; 0: none is */
    int event;        /* enum ibv_event_type about the last queue pair, pending; -1: none */

    int doorbells;                      /* calls of post_send */
    int requests;                       /* work requests posted */
    int signalled;                      /* work requests that ask for a completion of success */
    int inlined;                        /* work requests that carry their data */
    uint64_t written[MOCK_DEVICES_MAX]; /* bytes by RDMA writes on each device */
    uint64_t largest;                   /* bytes of the largest write */
    int reads;
    int receives;  /* receive requests that wait, of all queue pairs */
    int plain_mrs; /* registrations by address, and of dma-bufs */
    int dmabuf_mrs;
    uint64_t dmabuf_offset; /* of the last one */
    int last_access;        /* flags of the last registration */
    int objects;            /* made and not destroyed: contexts, domains, regions, queues, queue pairs */
    int pkey_index;         /* of the last queue pair initialised */
    struct ibv_qp_attr rtr; /* as the last queue pair was connected */
    struct ibv_qp_attr rts;
} mock_verbs_t;

#endif
