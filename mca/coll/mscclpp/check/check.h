/*
 * Comparison of calls, for the parameter check_calls: before a collective does anything, the ranks tell one another
 * which one it is and with what arguments. A blocking call waits for all of them and ends with an error on all ranks
 * alike if they do not match. A nonblocking or persistent one may not wait, as the peers may come to it only after
 * something that this rank has yet to do: it is begun, and the job ends if the comparison finds a difference.
 */
#ifndef MCA_COLL_MSCCLPP_CHECK_CHECK_H
#define MCA_COLL_MSCCLPP_CHECK_CHECK_H

#include "mca/coll/mscclpp/ompi/module.h"

/* The functions whose calls are compared, one number each. */
typedef enum {
#define MCA_COLL_MSCCLPP_CHECK_NUMBER(name_) MCA_COLL_MSCCLPP_CHECK_##name_,
    MCA_COLL_MSCCLPP_BLOCKING(MCA_COLL_MSCCLPP_CHECK_NUMBER) MCA_COLL_MSCCLPP_NONBLOCKING(MCA_COLL_MSCCLPP_CHECK_NUMBER)
        MCA_COLL_MSCCLPP_PERSISTENT(MCA_COLL_MSCCLPP_CHECK_NUMBER) MCA_COLL_MSCCLPP_CHECK_LAST
#undef MCA_COLL_MSCCLPP_CHECK_NUMBER
} mca_coll_mscclpp_check_function_t;

/* Bytes that a rank sends to another one and expects from it. */
typedef struct {
    uint64_t to;
    uint64_t from;
} mca_coll_mscclpp_check_pair_t;

/*
 * What a rank passes to a call. `pairs` has an element for each peer, of the remote group of an inter-communicator, or
 * is NULL where what is exchanged follows from `count` and `size` alone.
 */
typedef struct {
    mca_coll_mscclpp_check_function_t function;
    bool has_root;
    int root;
    struct ompi_op_t *op; /* NULL: none */
    uint64_t count;       /* elements, equal on all ranks, of which each has `size` bytes; 0: what `pairs` says */
    uint64_t size;
    bool same_to; /* all ranks have the same `to` for each peer */
    mca_coll_mscclpp_check_pair_t *pairs;
    bool hopeless; /* an earlier call has broken the communicator for the memory that this rank passes */
} mca_coll_mscclpp_check_call_t;

/*
 * Whether a call is the application's. Open MPI's own, of which one that makes a communicator makes several, some from
 * within opal_progress, come in another order on each rank. `caller`: the address that the function returns to.
 */
bool mca_coll_mscclpp_check_wanted(const mca_coll_mscclpp_module_t *module, const void *caller);

/* Before the call. An MPI error code: none, where the calls match or the comparison is still under way. */
int mca_coll_mscclpp_check_call(mca_coll_mscclpp_module_t *module, const mca_coll_mscclpp_check_call_t *call);

/* The ranks that a call exchanges bytes with. */
static inline int mca_coll_mscclpp_check_peers(struct ompi_communicator_t *comm)
{
    return OMPI_COMM_IS_INTER(comm) ? ompi_comm_remote_size(comm) : ompi_comm_size(comm);
}

/*
 * Comparisons of calls that do not wait go on in opal_progress. `settle` waits for those of a module,
 * which `forget` drops; NULL: of all.
 */
int mca_coll_mscclpp_check_init(void);
void mca_coll_mscclpp_check_fini(void);
void mca_coll_mscclpp_check_settle(mca_coll_mscclpp_module_t *module);
void mca_coll_mscclpp_check_forget(const mca_coll_mscclpp_module_t *module);

/* Beside these: every collective's function that compares the call on all ranks and then calls the module's own. */
#define MCA_COLL_MSCCLPP_CHECKED_DECLARE(name_)                                                                        \
    extern const mca_coll_mscclpp_fn_t(name_) mca_coll_mscclpp_checked_##name_;
MCA_COLL_MSCCLPP_COLLECTIVES(MCA_COLL_MSCCLPP_CHECKED_DECLARE)
#undef MCA_COLL_MSCCLPP_CHECKED_DECLARE

#endif
