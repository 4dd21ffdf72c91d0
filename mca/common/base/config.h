/*
 * The table of all parameters. The component registers its rows with Open MPI, and contrib/gen-params writes pages of
 * docs/ from them. To add a parameter, add a field to mscclpp_config_t and a row to the table in config.c. If it may
 * differ between ranks, say so in settings.c.
 */
#ifndef MCA_COMMON_BASE_CONFIG_H
#define MCA_COMMON_BASE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "mca/common/base/colls.h"
#include "mca/common/base/status.h"

typedef struct {
    bool enable;
    int priority;
    int verbose;
    const char *device;    /* "auto", "cuda", "host" */
    const char *algorithm; /* "auto", the name of a registered algorithm, or "stage" */
    /*
     * The algorithm of each other collective: "auto", "packets", "zerocopy", "engines", "scratch", "puts",
     * "nodes", "nodes_ring", "nodes_halving", "nodes_trees", "nodes_packets", "nodes_rounds", "stage".
     */
#define MSCCLPP_CONFIG_COLL(id_, name_, pattern_) const char *name_##_algorithm;
    MSCCLPP_COLLS(MSCCLPP_CONFIG_COLL)
#undef MSCCLPP_CONFIG_COLL
    const char *plans; /* files and folders (mca/common/plan/library.h); "": none */
    const char *plan_check;
    const char *rules;   /* a file (mca/common/algo/rules.h); "": none */
    size_t oneshot_max;  /* bytes; 0: the built-in table */
    size_t twophase_max; /* bytes; 0: the built-in table */
    size_t put_max;      /* bytes; 0: the built-in table */
    const char *packet;  /* "auto", "ll128", "ll16", "ll8" */
    size_t lines_min;    /* bytes; 0: the built-in table */
    bool zerocopy;
    size_t engine_min;     /* bytes; 0: the built-in table */
    size_t engine_chunk;   /* bytes; 0: the built-in table */
    size_t engine_scratch; /* bytes per rank; 0: no copy engines for all-reduce */
    int max_blocks;        /* 0: the built-in table */
    int max_threads;       /* 0: the built-in table */
    size_t scratch_size;   /* bytes per rank and communicator */
    bool reuse;
    int mapping_cache_size;     /* mappings of peers' user buffers that a process keeps */
    size_t mapping_cache_bytes; /* bytes of peers' memory that these mappings may hold; 0: no limit */
    double timeout;             /* seconds; 0: none */
    double warn_after;          /* seconds; 0: never */
    const char *shared_gpu;     /* "auto", "kernels", "stage" */
    const char *linger;         /* "auto", "on", "off" */
    double linger_window;       /* microseconds */
    double linger_idle;         /* microseconds */
    size_t linger_max;          /* bytes */
    int linger_blocks;
    bool linger_cluster;
    bool mixed_buffers;
    bool check_calls;
    const char *stage; /* "auto", "always", "never" */
    bool ucx;
    int ranks_per_node;          /* 0: real nodes */
    const char *transport;       /* "auto", "network", "shm", "cuda_ipc", "verbs", "ucx" */
    size_t exchange_size;        /* bytes per rank and communicator */
    const char *exchange_memory; /* "auto", "device", "host" */
    bool exchange_stores;
    int nodes_fanout;         /* nodes */
    size_t nodes_packets_max; /* bytes; 0: the built-in choice */
    size_t nodes_split_min;   /* bytes; 0: the built-in choice */
    size_t nodes_ring_min;    /* bytes; 0: the built-in choice */
    const char *proxy;        /* "progress", "thread" */
    int fifo_size;            /* triggers */
    const char *ucx_bounce;   /* "auto", "always", "device" */
    bool ucx_shared_memory;
    size_t bounce_size; /* bytes per connection and direction */
    bool widen_selection;
    const char *widen_list;
    int twin_blocks;
    int twin_threads;
    const char *twin_host_ranks;
    bool twin_shared_only;
    size_t epoch_limit;
    const char *verbs_library;
    const char *verbs_registration; /* "auto", "dmabuf", "peermem", "bounce" */
    const char *verbs_mode;         /* "auto", "atomic", "no_atomic" */
    const char *verbs_devices;
    int verbs_port;      /* 0: the first active one */
    int verbs_gid_index; /* -1: the library finds one */
    int verbs_service_level;
    int verbs_traffic_class;
    int verbs_timeout;
    int verbs_retry_count;
    int verbs_rnr_retry;
    const char *verbs_mtu; /* "auto" or bytes */
    int verbs_queue_depth;
    int verbs_rails;
    size_t verbs_stripe_min; /* bytes */
    bool verbs_relaxed_ordering;
} mscclpp_config_t;

typedef enum {
    MSCCLPP_PARAM_BOOL,
    MSCCLPP_PARAM_INT,
    MSCCLPP_PARAM_SIZE, /* a number with an optional suffix k, m or g (powers of 1024) */
    MSCCLPP_PARAM_DOUBLE,
    MSCCLPP_PARAM_STRING
} mscclpp_param_type_t;

typedef struct {
    const char *name; /* without the prefix "coll_mscclpp_" */
    mscclpp_param_type_t type;
    const char *default_value;
    int level;           /* 1 to 9, as in Open MPI: 1-3 for users, 4-6 for tuning, 7-9 for developers */
    const char *choices; /* for strings: the allowed values, separated by "|"; NULL: any */
    double min;          /* for numbers: the allowed range */
    double max;
    const char *help; /* one sentence, with the unit */
    size_t offset;    /* offset of the field in mscclpp_config_t, bytes */
} mscclpp_param_t;

extern const mscclpp_param_t mscclpp_params[];
extern const int mscclpp_param_count;

/* Fills in the defaults of all parameters. Strings point into the table of parameters. */
void mscclpp_config_init(mscclpp_config_t *config);

/*
 * Sets one parameter from its text. A string value must outlive the configuration. If the value is not allowed, leaves
 * the field as it was and returns MSCCLPP_ERR_INVALID. The log line names the parameter, the value and what is allowed.
 */
mscclpp_status_t mscclpp_config_set(mscclpp_config_t *config, const mscclpp_param_t *param, const char *value);

/* Returns the parameter with this name, or NULL. */
const mscclpp_param_t *mscclpp_param_find(const char *name);

/*
 * Parse a whole number, and a size with an optional suffix k, m or g. If the text is something else or out of range,
 * they return false and leave *value_p as it was.
 */
bool mscclpp_config_parse_int(const char *text, int *value_p);
bool mscclpp_config_parse_size(const char *text, size_t *value_p);

/*
 * Sets every parameter for which the environment has MSCCLPP_<NAME> (upper case), for programs without Open MPI. Goes
 * on after a value that is not allowed; returns the first error.
 */
mscclpp_status_t mscclpp_config_from_environment(mscclpp_config_t *config);

#endif
