/*
 * The state of the process, the modules, and what all files of the component use.
 *
 * Errors are logged as mca/common/base/status.h says, by the function that first detects them. The same holds for
 * functions of this component that return MPI error codes.
 */
#ifndef MCA_COLL_MSCCLPP_OMPI_MODULE_H
#define MCA_COLL_MSCCLPP_OMPI_MODULE_H

#include "mca/coll/mscclpp/ompi/compat.h"

#include <pthread.h>

#include "mca/common/base/colls.h"
#include "mca/common/base/config.h"
#include "mca/common/base/fiber.h"
#include "mca/common/gpu/gpu.h"
#include "mca/common/team/team.h"

/*
 * Every collective that a module can serve, in its three variants. X(name) is expanded once for each function slot of
 * Open MPI's module structure, coll_<name>, whose type is mca_coll_mscclpp_fn_t(name).
 */
#define MCA_COLL_MSCCLPP_BLOCKING(X)                                                                                   \
    X(allgather)                                                                                                       \
    X(allgatherv)                                                                                                      \
    X(allreduce)                                                                                                       \
    X(alltoall)                                                                                                        \
    X(alltoallv)                                                                                                       \
    X(alltoallw)                                                                                                       \
    X(bcast)                                                                                                           \
    X(exscan)                                                                                                          \
    X(gather)                                                                                                          \
    X(gatherv)                                                                                                         \
    X(reduce)                                                                                                          \
    X(reduce_scatter_block)                                                                                            \
    X(reduce_scatter)                                                                                                  \
    X(scan)                                                                                                            \
    X(scatter)                                                                                                         \
    X(scatterv)                                                                                                        \
    X(neighbor_allgather)                                                                                              \
    X(neighbor_allgatherv)                                                                                             \
    X(neighbor_alltoall)                                                                                               \
    X(neighbor_alltoallv)                                                                                              \
    X(neighbor_alltoallw)

#define MCA_COLL_MSCCLPP_NONBLOCKING(X)                                                                                \
    X(iallgather)                                                                                                      \
    X(iallgatherv)                                                                                                     \
    X(iallreduce)                                                                                                      \
    X(ialltoall)                                                                                                       \
    X(ialltoallv)                                                                                                      \
    X(ialltoallw)                                                                                                      \
    X(ibcast)                                                                                                          \
    X(iexscan)                                                                                                         \
    X(igather)                                                                                                         \
    X(igatherv)                                                                                                        \
    X(ireduce)                                                                                                         \
    X(ireduce_scatter_block)                                                                                           \
    X(ireduce_scatter)                                                                                                 \
    X(iscan)                                                                                                           \
    X(iscatter)                                                                                                        \
    X(iscatterv)                                                                                                       \
    X(ineighbor_allgather)                                                                                             \
    X(ineighbor_allgatherv)                                                                                            \
    X(ineighbor_alltoall)                                                                                              \
    X(ineighbor_alltoallv)                                                                                             \
    X(ineighbor_alltoallw)

#define MCA_COLL_MSCCLPP_PERSISTENT(X)                                                                                 \
    X(allgather_init)                                                                                                  \
    X(allgatherv_init)                                                                                                 \
    X(allreduce_init)                                                                                                  \
    X(alltoall_init)                                                                                                   \
    X(alltoallv_init)                                                                                                  \
    X(alltoallw_init)                                                                                                  \
    X(bcast_init)                                                                                                      \
    X(exscan_init)                                                                                                     \
    X(gather_init)                                                                                                     \
    X(gatherv_init)                                                                                                    \
    X(reduce_init)                                                                                                     \
    X(reduce_scatter_block_init)                                                                                       \
    X(reduce_scatter_init)                                                                                             \
    X(scan_init)                                                                                                       \
    X(scatter_init)                                                                                                    \
    X(scatterv_init)                                                                                                   \
    X(neighbor_allgather_init)                                                                                         \
    X(neighbor_allgatherv_init)                                                                                        \
    X(neighbor_alltoall_init)                                                                                          \
    X(neighbor_alltoallv_init)                                                                                         \
    X(neighbor_alltoallw_init)

#define MCA_COLL_MSCCLPP_COLLECTIVES(X)                                                                                \
    MCA_COLL_MSCCLPP_BLOCKING(X)                                                                                       \
    MCA_COLL_MSCCLPP_NONBLOCKING(X)                                                                                    \
    MCA_COLL_MSCCLPP_PERSISTENT(X)

#define MCA_COLL_MSCCLPP_ALL(X)                                                                                        \
    MCA_COLL_MSCCLPP_COLLECTIVES(X)                                                                                    \
    X(reduce_local)

/* All slots that a module may fill. It fills those of the barrier only to keep calls in order. */
#define MCA_COLL_MSCCLPP_SLOTS(X)                                                                                      \
    MCA_COLL_MSCCLPP_ALL(X)                                                                                            \
    X(ibarrier)                                                                                                        \
    X(barrier_init)

/*
 * Why a call is staged. X(id, name, words): the counter coll_mscclpp_staged_<name> counts such calls, and the words
 * go on from "calls".
 */
#define MCA_COLL_MSCCLPP_REASONS(X)                                                                                    \
    X(INTER, inter, "on an inter-communicator")                                                                        \
    X(OPERATION, operation, "with an operation of the application")                                                    \
    X(TYPE, type, "with a type that kernels cannot combine")                                                           \
    X(LOCAL, local, "by MPI_Reduce_local")                                                                             \
    X(INTERNAL, internal, "made by Open MPI itself")                                                                   \
    X(COMMUNICATOR, communicator, "on a communicator that kernels do not serve")                                       \
    X(ALGORITHM, algorithm, "without an algorithm that can serve them")                                                \
    X(RANKS, ranks, "nonblocking or persistent on more ranks than a node may have")                                    \
    X(MIXED, mixed, "where ranks may pass different kinds of memory")                                                  \
    X(REQUESTS, requests, "of a persistent request without memory of its own")                                         \
    X(UNDECIDED, undecided, "before ranks had agreed on the kind of memory")                                           \
    X(OTHER, other, "for another reason")

typedef enum {
    MCA_COLL_MSCCLPP_REASON_NONE, /* nothing is known that prevents kernels */
#define MCA_COLL_MSCCLPP_REASON(id_, name_, words_) MCA_COLL_MSCCLPP_REASON_##id_,
    MCA_COLL_MSCCLPP_REASONS(MCA_COLL_MSCCLPP_REASON)
#undef MCA_COLL_MSCCLPP_REASON
        MCA_COLL_MSCCLPP_REASON_LAST
} mca_coll_mscclpp_reason_t;

/* The functions that were in the communicator's table before this module, and their modules, which are retained. */
typedef struct {
#define MCA_COLL_MSCCLPP_PREVIOUS(name_)                                                                               \
    mca_coll_mscclpp_fn_t(name_) name_;                                                                                \
    mca_coll_base_module_t *name_##_module;
    MCA_COLL_MSCCLPP_SLOTS(MCA_COLL_MSCCLPP_PREVIOUS)
#undef MCA_COLL_MSCCLPP_PREVIOUS
} mca_coll_mscclpp_previous_t;

/* The functions of this module; NULL where the previous module keeps serving the slot. */
typedef struct {
#define MCA_COLL_MSCCLPP_OWN(name_) mca_coll_mscclpp_fn_t(name_) name_;
    MCA_COLL_MSCCLPP_SLOTS(MCA_COLL_MSCCLPP_OWN)
#undef MCA_COLL_MSCCLPP_OWN
} mca_coll_mscclpp_own_t;

typedef enum {
    MCA_COLL_MSCCLPP_TEAM_NONE,    /* no device buffer has been passed yet */
    MCA_COLL_MSCCLPP_TEAM_READY,   /* all ranks take part */
    MCA_COLL_MSCCLPP_TEAM_REFUSED, /* all ranks agreed to stage device buffers */
    MCA_COLL_MSCCLPP_TEAM_BROKEN   /* a call returned an error to the application, and every later call fails */
} mca_coll_mscclpp_team_state_t;

typedef struct mca_coll_mscclpp_oob mca_coll_mscclpp_oob_t;
typedef struct mca_coll_mscclpp_request_t mca_coll_mscclpp_request_t;

typedef struct mca_coll_mscclpp_lane mca_coll_mscclpp_lane_t;

/* Calls under way that run one after the other, oldest first. Private to native/request.c. */
typedef struct mca_coll_mscclpp_queue {
    mca_coll_mscclpp_request_t *first;   /* atomic */
    mca_coll_mscclpp_request_t **end;    /* the link that a further call is put into */
    struct mca_coll_mscclpp_queue *next; /* the next queue that holds calls */
    int count;                           /* number of calls in the queue; atomic */
} mca_coll_mscclpp_queue_t;

/* One edge of a topology, as its sender or its receiver sees it. */
typedef struct {
    int peer;  /* the rank at the other end */
    int block; /* index of the edge's block in the buffer */
    int turn;  /* orders the edges between the same two ranks, in the same way at both ends */
} mca_coll_mscclpp_edge_t;

/* The edges of this rank that lead to a peer, sorted by peer and turn. */
typedef struct {
    int count;
    bool has_parallel; /* some peer has more than one edge */
    mca_coll_mscclpp_edge_t edge[];
} mca_coll_mscclpp_edges_t;

/*
 * A module belongs to one communicator. Only the thread that serves a call of the communicator uses its fields. The
 * exceptions say so: some are guarded by a lock, and native/mixture.c reads the "shared" ones in the opal_progress of
 * any thread.
 */
typedef struct mca_coll_mscclpp_module_t {
    mca_coll_base_module_t super;
    struct mca_coll_mscclpp_module_t *next;  /* in the list of enabled modules; guarded by the component's lock */
    struct mca_coll_mscclpp_module_t **link; /* what points to this module in that list; NULL: it is not in the list */
    struct ompi_communicator_t *comm;
    mca_coll_mscclpp_previous_t previous; /* the functions that serve the calls that this module does not serve */
    mca_coll_mscclpp_own_t own_functions; /* with check_calls, called by the functions that compare calls */
    uint64_t checked_calls;               /* number of calls whose comparison has begun */
    bool check_failed;                    /* a call could not be compared: no further one is, and each call fails */
    bool in_compared_call;                /* a call has been compared and is being served; what serves it may call
                                             other collectives */
    bool in_ompi_call; /* a call that Open MPI itself makes is being served; such calls are not compared */
    bool is_enabled;   /* the module has functions in the communicator's table */
    bool peer_reports; /* another rank has given up the agreement of a call, and logs what follows from it */
    bool told_broken;  /* the BROKEN state has been reported */
    mca_coll_mscclpp_team_state_t team_state;
    unsigned undecided_calls;        /* calls, before there was a team, in which some ranks may have passed no data */
    mscclpp_team_t *team;            /* shared, atomic */
    mca_coll_mscclpp_oob_t *oob;     /* state of oob.c, made when first needed; guarded by the component's lock */
    bool told_waits;                 /* oob/waits.c has sent messages that late ranks will discard */
    uint64_t agreed;                 /* 1 + the last call whose agreement this rank has completed; 0: none */
    bool keeps_comm;                 /* oob/message.c holds a reference to the communicator */
    uint64_t calls;                  /* shared, atomic: number of calls that kernels may serve, on host or device
                                        buffers */
    uint64_t current_call;           /* number of the call that runs now; calls may be started ahead of it */
    mca_coll_mscclpp_queue_t queue;  /* nonblocking calls under way */
    mca_coll_mscclpp_lane_t *lanes;  /* lanes of persistent requests; guarded by the component's lock */
    uint64_t lanes_made;             /* number of lanes made so far, equal on all ranks */
    mca_coll_mscclpp_lane_t *queued; /* lane of queued calls; NULL: there were none yet, or they are not queued */
    bool never_queued;               /* all ranks agreed that this communicator's queued calls are not queued */
    int queue_failure;               /* the MPI error code of making the queue, which further queued calls return */
    uint64_t queued_calls;           /* number of queued calls so far */
    struct mscclpp_user *user;       /* memory and channels for kernels of the application; NULL: none yet */
    mca_coll_mscclpp_lane_t *user_lane;  /* lane of that memory and those channels */
    bool no_lanes;                       /* all ranks agreed that this communicator's persistent requests get no lane */
    bool is_bound;                       /* MPI_Comm_free will free the team */
    mca_coll_mscclpp_edges_t *edges_in;  /* incoming edges of the topology; NULL: not looked up yet */
    mca_coll_mscclpp_edges_t *edges_out; /* outgoing edges; NULL: not looked up yet */
    int in_host_call;      /* shared, atomic: not 0 while the previous component serves a call on host buffers */
    int watchers;          /* shared, atomic: not 0 while another thread may read the fields above */
    uint64_t suspect_call; /* the host call that native/mixture.c saw last; guarded by the component's lock */
    double suspect_since;  /* when it saw that call first, or last looked for a cause; time by mscclpp_now */
    uint64_t served;       /* device calls served by kernels or copy engines */
    uint64_t rung;         /* number of the team's calls without a launch that have been counted */
    uint64_t staged;       /* calls of any collective staged through host memory */
    uint64_t staged_for[MCA_COLL_MSCCLPP_REASON_LAST]; /* the same calls, by reason */
    mca_coll_mscclpp_reason_t unserved; /* why kernels do not serve this call; NONE: not known, or they serve it */
} mca_coll_mscclpp_module_t;

OBJ_CLASS_DECLARATION(mca_coll_mscclpp_module_t);

/* What all modules of the process share. */
typedef struct {
    const mca_base_component_t *version; /* Open MPI's record of the component, which owns the variables */
    mscclpp_config_t config;             /* settings in force */
    mscclpp_config_t own_config;         /* settings of this rank's user */
    mscclpp_rules_t *rules;              /* NULL: none; from component_init_query to component_close */
    mscclpp_plan_library_t *plans;       /* NULL: none; from component_init_query to component_close */
    const mscclpp_gpu_ops_t *gpu;        /* NULL: no usable device, and no module is created */
    int output;                          /* opal_output stream */
    bool stage_others;    /* collectives without kernels stage device buffers, as Open MPI cannot take them */
    bool finalizing;      /* MPI_Finalize has begun, and no more teams are made */
    pthread_mutex_t lock; /* never held during a call that may wait or run opal_progress */
    int (*bind)(mca_coll_mscclpp_module_t *module); /* native/bind.c: makes MPI_Comm_free free the module's team */
    mca_coll_mscclpp_module_t *modules;             /* the enabled modules; guarded by the lock */
} mca_coll_mscclpp_state_t;

extern mca_coll_mscclpp_state_t mca_coll_mscclpp_state;

/*
 * Returns true for device memory; false for MPI_IN_PLACE, MPI_BOTTOM and NULL. *allocation_p is set as by `is_device`
 * in mca/common/gpu/gpu.h.
 */
static inline bool mca_coll_mscclpp_find_device(const void *buffer, uint64_t *allocation_p)
{
    *allocation_p = 0;
    return buffer != MPI_IN_PLACE && buffer != NULL && mca_coll_mscclpp_state.gpu->is_device(buffer, allocation_p);
}

static inline bool mca_coll_mscclpp_is_device(const void *buffer)
{
    uint64_t allocation;

    return mca_coll_mscclpp_find_device(buffer, &allocation);
}

/* Returns the communicator's name for messages, or a text that says that it has none. */
static inline const char *mca_coll_mscclpp_comm_name(const struct ompi_communicator_t *comm)
{
    const char *name = comm->c_name;

    return name != NULL && '\0' != name[0] ? name : "an unnamed communicator";
}

/* Returns the number of ranks that a call exchanges bytes with. On an inter-communicator, they are the other group. */
static inline int mca_coll_mscclpp_peer_count(struct ompi_communicator_t *comm)
{
    return OMPI_COMM_IS_INTER(comm) ? ompi_comm_remote_size(comm) : ompi_comm_size(comm);
}

/* Takes one turn of a waiting loop: in a fiber, returns to the code that runs the fiber; else runs opal_progress. */
static inline void mca_coll_mscclpp_progress(void)
{
    if (!mscclpp_fiber_yield()) {
        opal_progress();
    }
}

/*
 * Add a module to the list of enabled modules, and remove it (state.c). Removing a module that is not in the list does
 * nothing.
 */
void mca_coll_mscclpp_list_insert(mca_coll_mscclpp_module_t *module);
void mca_coll_mscclpp_list_remove(mca_coll_mscclpp_module_t *module);

/* Returns the module of a communicator; NULL if this component does not serve it. */
mca_coll_mscclpp_module_t *mca_coll_mscclpp_module_of(const struct ompi_communicator_t *comm);

/*
 * Waits until no other thread reads the module (`watchers`). Readers never wait, so the function returns soon. The
 * caller must first unlink, under the lock, the objects that readers use: readers begin under the lock, so no further
 * reader can find them.
 */
void mca_coll_mscclpp_wait_for_watchers(const mca_coll_mscclpp_module_t *module);

/*
 * Makes MPI_Comm_free call `deleted` with `value` when it begins (attribute.c). Returns an Open MPI error code. An
 * error has been logged, and `deleted` is then never called.
 */
typedef int (*mca_coll_mscclpp_deleted_fn_t)(MPI_Comm comm, int key, void *value, void *context);
int mca_coll_mscclpp_attribute_attach(struct ompi_communicator_t *comm, mca_coll_mscclpp_deleted_fn_t deleted,
                                      void *value);

/*
 * Makes MPI_Finalize call `ended` when it begins. Call this function when MPI_COMM_SELF is created, before anybody else
 * can attach an attribute. Attributes that are attached later are deleted earlier, so their callbacks still find the
 * teams on every rank. Does nothing if a function is attached already, or if there are only sessions, which have no
 * MPI_COMM_SELF. Returns an Open MPI error code. An error has been logged, and the next call tries again.
 */
int mca_coll_mscclpp_attribute_attach_self(void (*ended)(void));

/* What a call is counted as: its collective, the same for all three variants. */
typedef enum {
#define MCA_COLL_MSCCLPP_COUNTED(name_) MCA_COLL_MSCCLPP_COUNTED_##name_,
    MCA_COLL_MSCCLPP_BLOCKING(MCA_COLL_MSCCLPP_COUNTED)
#undef MCA_COLL_MSCCLPP_COUNTED
        MCA_COLL_MSCCLPP_COUNTED_LAST /* no collective: counted only in the sums over all collectives */
} mca_coll_mscclpp_counted_t;

/*
 * Registers the performance variables (counters.c): coll_mscclpp_served, _staged, _rung, _planned and _plan, for each
 * reason coll_mscclpp_staged_<reason>, and for each collective coll_mscclpp_<collective>_kernels, _engines, _plans,
 * _rung, _staged and _passed.
 */
void mca_coll_mscclpp_register_counters(void);

/* Begins to count the calls of a new team of the module. The team may have served another module before. */
void mca_coll_mscclpp_count_anew(mca_coll_mscclpp_module_t *module);

/*
 * Counts a call that kernels or copy engines served: with the module's team, or with another one. *rung is the number
 * of that team's calls without a launch that have been counted. MSCCLPP_COLL_LAST means all-reduce.
 */
void mca_coll_mscclpp_count_served(mca_coll_mscclpp_module_t *module, mscclpp_coll_t coll);
void mca_coll_mscclpp_count_served_by(mca_coll_mscclpp_module_t *module, mscclpp_coll_t coll,
                                      const mscclpp_team_t *team, uint64_t *rung);

/* Counts the last call that was queued in `team`, if a plan serves it. */
void mca_coll_mscclpp_count_queued(mscclpp_coll_t coll, const mscclpp_team_t *team);

/* Counts the plan that the program has last run by its name. */
void mca_coll_mscclpp_count_named(const mscclpp_team_t *team);

/* Returns the number of calls of this process that kernels or copy engines served. */
uint64_t mca_coll_mscclpp_served_calls(void);

/*
 * The function that finds out that kernels do not serve a call stores the reason in module->unserved. The call is then
 * either passed on or staged: `take_reason` returns the reason and clears it, and `count_staged` counts the call.
 */
mca_coll_mscclpp_reason_t mca_coll_mscclpp_take_reason(mca_coll_mscclpp_module_t *module);
void mca_coll_mscclpp_count_staged(mca_coll_mscclpp_module_t *module, mca_coll_mscclpp_counted_t counted,
                                   mca_coll_mscclpp_reason_t reason);

/* Writes the reasons of a communicator's staged calls, with the numbers of calls, into `text` of `size` bytes. */
void mca_coll_mscclpp_describe_staged(const mca_coll_mscclpp_module_t *module, char *text, size_t size);

/* Counts a call that was left to the previous component, and forgets the reason. */
void mca_coll_mscclpp_count_passed(mca_coll_mscclpp_module_t *module, mca_coll_mscclpp_counted_t counted);

/* Return the type or operation of kernels; MSCCLPP_DTYPE_LAST or MSCCLPP_OP_LAST: kernels know none like it
 * (convert.c). */
mscclpp_dtype_t mca_coll_mscclpp_dtype(const struct ompi_datatype_t *datatype);
mscclpp_op_t mca_coll_mscclpp_op(const struct ompi_op_t *op);

/* Returns the error code for a status, which a collective can return to the application (convert.c). */
int mca_coll_mscclpp_status_to_ompi(mscclpp_status_t status);

#endif
