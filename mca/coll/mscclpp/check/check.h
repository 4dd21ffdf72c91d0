/*
 * Comparison of calls, for the parameter check_calls. Before a collective does anything, the ranks tell one another
 * which collective they call, and with what arguments. A blocking call waits for all ranks. If the calls do not match,
 * it ends with an error on all ranks. A nonblocking or persistent call must not wait, since a peer may reach it only
 * after something that this rank has yet to do. So it begins at once, and the job ends if the calls do not match. If a
 * rank has no memory to compare it, the call goes on without a comparison.
 */
#ifndef MCA_COLL_MSCCLPP_CHECK_CHECK_H
#define MCA_COLL_MSCCLPP_CHECK_CHECK_H

#include "mca/coll/mscclpp/ompi/module.h"

/* Numbers of the functions whose calls are compared: the blocking ones first. */
typedef enum {
#define MCA_COLL_MSCCLPP_CHECK_NUMBER(name_) MCA_COLL_MSCCLPP_CHECK_##name_,
    MCA_COLL_MSCCLPP_BLOCKING(MCA_COLL_MSCCLPP_CHECK_NUMBER) MCA_COLL_MSCCLPP_NONBLOCKING(MCA_COLL_MSCCLPP_CHECK_NUMBER)
        MCA_COLL_MSCCLPP_PERSISTENT(MCA_COLL_MSCCLPP_CHECK_NUMBER) MCA_COLL_MSCCLPP_CHECK_LAST
#undef MCA_COLL_MSCCLPP_CHECK_NUMBER
} mca_coll_mscclpp_check_function_t;

/* How many bytes a rank sends to a peer, and expects from it. */
typedef struct {
    uint64_t to;
    uint64_t from;
} mca_coll_mscclpp_check_pair_t;

/*
 * A rank's arguments of a call. `pairs` has an entry for each peer; on an inter-communicator, for each rank of the
 * remote group. It is NULL if `count` and `size` alone determine what is exchanged.
 */
typedef struct {
    mca_coll_mscclpp_check_function_t function;
    bool has_root;
    int root;
    struct ompi_op_t *op; /* NULL: the function has no operation */
    uint64_t count;       /* number of elements of `size` bytes each, equal on all ranks; 0: only `pairs` has sizes */
    uint64_t size;        /* bytes of data in one element */
    bool same_to;         /* all ranks have the same `to` for each peer */
    mca_coll_mscclpp_check_pair_t *pairs;
    bool is_hopeless; /* an earlier call has broken the communicator for the kind of memory that this rank passes */
} mca_coll_mscclpp_check_call_t;

/*
 * Returns true if the application made the call. Open MPI's own calls are not compared: it makes several when it
 * creates a communicator, some within opal_progress, and their order differs between ranks. `caller`: the address that
 * the function returns to.
 */
bool mca_coll_mscclpp_check_is_wanted(const mca_coll_mscclpp_module_t *module, const void *caller);

/*
 * Compares a call with the calls of the other ranks, before the call is served. Waits for them if the call is blocking.
 * Returns OMPI_SUCCESS if the calls match. Also returns OMPI_SUCCESS if the call is nonblocking or persistent, whose
 * comparison continues in opal_progress, if it is `is_hopeless`, as such a blocking call reports its own error, or if
 * there is no other rank. Otherwise returns an MPI error code, after a log. If the comparison itself failed, no further
 * call of the communicator is compared, and each fails with MPI_ERR_OTHER.
 */
int mca_coll_mscclpp_check_call(mca_coll_mscclpp_module_t *module, const mca_coll_mscclpp_check_call_t *call);

/*
 * Called in place of mca_coll_mscclpp_check_call by a rank that has no memory to describe the call. Logs this. For a
 * blocking call, makes the other ranks of an intra-communicator fail the call, too, and returns MPI_ERR_NO_MEM. A
 * nonblocking or persistent call continues without a comparison, and the result is OMPI_SUCCESS. Without other ranks,
 * and after a comparison that failed, it returns the same as mca_coll_mscclpp_check_call.
 */
int mca_coll_mscclpp_check_without_memory(mca_coll_mscclpp_module_t *module,
                                          mca_coll_mscclpp_check_function_t function);

/*
 * Comparisons of nonblocking calls advance in opal_progress. `init` registers the callback for that if check_calls is
 * set, and returns an Open MPI error code, without a log. `settle` runs opal_progress until a module's comparisons have
 * ended, for the time of the parameter `timeout` at most (0: without a limit). Then it drops those that are left.
 * `forget` drops them at once. If the module is NULL, both act on the comparisons of all modules.
 */
int mca_coll_mscclpp_check_init(void);
void mca_coll_mscclpp_check_fini(void);
void mca_coll_mscclpp_check_settle(mca_coll_mscclpp_module_t *module);
void mca_coll_mscclpp_check_forget(const mca_coll_mscclpp_module_t *module);

/* The functions that compare a call of their collective on all ranks, and then call the module's own function. */
#define MCA_COLL_MSCCLPP_CHECKED_DECLARE(name_)                                                                        \
    extern const mca_coll_mscclpp_fn_t(name_) mca_coll_mscclpp_checked_##name_;
MCA_COLL_MSCCLPP_COLLECTIVES(MCA_COLL_MSCCLPP_CHECKED_DECLARE)
#undef MCA_COLL_MSCCLPP_CHECKED_DECLARE

#endif
