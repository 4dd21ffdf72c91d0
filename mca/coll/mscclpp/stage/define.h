/*
 * STAGE_COLLECTIVE generates the functions of a collective from one description. Some functions stage a call. Others
 * compare the calls of all ranks before they are served (check_calls). Each has a blocking, a nonblocking and a
 * persistent variant. The functions of different collectives differ only in their names, their arguments and the
 * request, so they are written once, in this file. The meaning of a collective is defined by ordinary functions.
 *
 * `params_` are the parameters that the three variants share, and `args_` their names, both in parentheses. The buffers
 * are named sbuf and rbuf. `use_` is one of STAGE_USE_..., and `set_view_` one of STAGE_VIEW_....
 *
 * The description is a function
 *     static void describe_<name>(mca_coll_mscclpp_stage_call_t *call, <params_>, struct ompi_communicator_t *comm)
 * which fills in *call, whose fields are 0 before.
 */
#ifndef MCA_COLL_MSCCLPP_STAGE_DEFINE_H
#define MCA_COLL_MSCCLPP_STAGE_DEFINE_H

#include "mca/coll/mscclpp/stage/stage.h"

#define STAGE_LIST(...) __VA_ARGS__

/*
 * Replace the buffers by their copies, and in reductions also the operation. The macros assign to the parameters of the
 * functions in which they are used.
 */
#define STAGE_USE_BOTH(stage_)                                                                                         \
    sbuf = (stage_).send.host;                                                                                         \
    rbuf = (stage_).recv.host
#define STAGE_USE_REDUCE(stage_)                                                                                       \
    STAGE_USE_BOTH(stage_);                                                                                            \
    op = mca_coll_mscclpp_stage_replace_op(op)
#define STAGE_USE_RECV(stage_) rbuf = (stage_).recv.host

/* Calls the function that served a slot before this module. */
#define STAGE_PREVIOUS(slot_, ...) (module->previous.slot_(__VA_ARGS__, module->previous.slot_##_module))

/*
 * Set the properties of a collective that a comparison of calls requires. The macros use the names of the functions'
 * parameters.
 */
#define STAGE_SET_PATTERN(view_, pattern_) (view_).pattern = MCA_COLL_MSCCLPP_STAGE_##pattern_
#define STAGE_VIEW_ALLGATHER(view_) STAGE_SET_PATTERN(view_, TO_ALL)
#define STAGE_VIEW_ALLTOALL(view_) STAGE_SET_PATTERN(view_, TO_EACH)
#define STAGE_VIEW_NEIGHBOR_ALLGATHER(view_) STAGE_SET_PATTERN(view_, NEIGHBOR_TO_ALL)
#define STAGE_VIEW_NEIGHBOR_ALLTOALL(view_) STAGE_SET_PATTERN(view_, NEIGHBOR_TO_EACH)
#define STAGE_VIEW_REDUCTION(view_)                                                                                    \
    STAGE_SET_PATTERN(view_, REDUCTION);                                                                               \
    (view_).op = op
#define STAGE_VIEW_REDUCTION_OF_PARTS(view_)                                                                           \
    STAGE_SET_PATTERN(view_, REDUCTION_OF_PARTS);                                                                      \
    (view_).op = op;                                                                                                   \
    (view_).counts = rcounts
#define STAGE_SET_ROOTED(view_, pattern_)                                                                              \
    STAGE_SET_PATTERN(view_, pattern_);                                                                                \
    (view_).has_root = true;                                                                                           \
    (view_).root = root
#define STAGE_VIEW_REDUCE(view_)                                                                                       \
    STAGE_SET_ROOTED(view_, REDUCTION);                                                                                \
    (view_).op = op
#define STAGE_VIEW_BCAST(view_) STAGE_SET_ROOTED(view_, FROM_ROOT_TO_ALL)
#define STAGE_VIEW_GATHER(view_) STAGE_SET_ROOTED(view_, TO_ROOT)
#define STAGE_VIEW_SCATTER(view_) STAGE_SET_ROOTED(view_, FROM_ROOT)

/* Used by the functions that compare calls: calls the module's own function or, if it has none, the previous one. */
#define STAGE_SERVE(slot_, ...)                                                                                        \
    (module->own_functions.slot_ != NULL ? module->own_functions.slot_(__VA_ARGS__, base)                              \
                                         : STAGE_PREVIOUS(slot_, __VA_ARGS__))

/*
 * The body of a function that compares calls of the application before they are served. Calls that Open MPI itself
 * makes are served without a comparison.
 */
#define STAGE_CHECKED(slot_, name_, args_, set_view_, ...)                                                             \
    mca_coll_mscclpp_module_t *module = (mca_coll_mscclpp_module_t *)base;                                             \
    mca_coll_mscclpp_stage_call_t call = {0};                                                                          \
    mca_coll_mscclpp_stage_view_t view = {0};                                                                          \
    int rc;                                                                                                            \
                                                                                                                       \
    if (!mca_coll_mscclpp_check_is_wanted(module, __builtin_return_address(0))) {                                      \
        const bool was_in_ompi_call = module->in_ompi_call;                                                            \
                                                                                                                       \
        module->in_ompi_call = true;                                                                                   \
        rc = STAGE_SERVE(slot_, STAGE_LIST args_, __VA_ARGS__);                                                        \
        module->in_ompi_call = was_in_ompi_call;                                                                       \
        return rc;                                                                                                     \
    }                                                                                                                  \
    describe_##name_(&call, STAGE_LIST args_, comm);                                                                   \
    set_view_(view);                                                                                                   \
    rc = mca_coll_mscclpp_stage_check(module, MCA_COLL_MSCCLPP_CHECK_##slot_, &call, &view);                           \
    if (OMPI_SUCCESS == rc) {                                                                                          \
        module->in_compared_call = true;                                                                               \
        rc = STAGE_SERVE(slot_, STAGE_LIST args_, __VA_ARGS__);                                                        \
        module->in_compared_call = false;                                                                              \
    }                                                                                                                  \
    return rc

/*
 * The functions of a collective: blocking_<name>, nonblocking_<name> and persistent_<name> stage a call that touches
 * device memory, and pass any other call to the previous component. A persistent request on host memory is wrapped,
 * too, if the application may free types or an operation that it uses. checked_<name>, checked_i<name> and
 * checked_<name>_init compare calls.
 */
#define STAGE_COLLECTIVE(name_, params_, args_, use_, set_view_)                                                       \
    static int blocking_##name_(STAGE_LIST params_, struct ompi_communicator_t *comm, mca_coll_base_module_t *base)    \
    {                                                                                                                  \
        mca_coll_mscclpp_module_t *module = (mca_coll_mscclpp_module_t *)base;                                         \
        mca_coll_mscclpp_stage_call_t call = {0};                                                                      \
        mca_coll_mscclpp_stage_t stage;                                                                                \
        int rc;                                                                                                        \
                                                                                                                       \
        describe_##name_(&call, STAGE_LIST args_, comm);                                                               \
        call.counted = MCA_COLL_MSCCLPP_COUNTED_##name_;                                                               \
        if (!mca_coll_mscclpp_stage_needed(&call)) {                                                                   \
            mca_coll_mscclpp_count_passed(module, call.counted);                                                       \
            return STAGE_PREVIOUS(name_, STAGE_LIST args_, comm);                                                      \
        }                                                                                                              \
        call.reason = mca_coll_mscclpp_take_reason(module);                                                            \
        rc = mca_coll_mscclpp_stage_begin(&stage, &call, module);                                                      \
        if (OMPI_SUCCESS != rc) {                                                                                      \
            return rc;                                                                                                 \
        }                                                                                                              \
        use_(stage);                                                                                                   \
        return mca_coll_mscclpp_stage_end(&stage, STAGE_PREVIOUS(name_, STAGE_LIST args_, comm));                      \
    }                                                                                                                  \
                                                                                                                       \
    static int nonblocking_##name_(STAGE_LIST params_, struct ompi_communicator_t *comm, ompi_request_t **request,     \
                                   mca_coll_base_module_t *base)                                                       \
    {                                                                                                                  \
        mca_coll_mscclpp_module_t *module = (mca_coll_mscclpp_module_t *)base;                                         \
        mca_coll_mscclpp_stage_call_t call = {0};                                                                      \
        mca_coll_mscclpp_stage_request_t *outer;                                                                       \
        int rc;                                                                                                        \
                                                                                                                       \
        describe_##name_(&call, STAGE_LIST args_, comm);                                                               \
        call.counted = MCA_COLL_MSCCLPP_COUNTED_##name_;                                                               \
        if (!mca_coll_mscclpp_stage_needed(&call)) {                                                                   \
            mca_coll_mscclpp_count_passed(module, call.counted);                                                       \
            return STAGE_PREVIOUS(i##name_, STAGE_LIST args_, comm, request);                                          \
        }                                                                                                              \
        call.reason = mca_coll_mscclpp_take_reason(module);                                                            \
        rc = mca_coll_mscclpp_stage_request_new(&call, module, comm, false, &outer);                                   \
        if (OMPI_SUCCESS != rc) {                                                                                      \
            return rc;                                                                                                 \
        }                                                                                                              \
        use_(outer->stage);                                                                                            \
        rc = STAGE_PREVIOUS(i##name_, STAGE_LIST args_, comm, &outer->inner);                                          \
        return mca_coll_mscclpp_stage_request_post(outer, rc, request);                                                \
    }                                                                                                                  \
                                                                                                                       \
    static int persistent_##name_(STAGE_LIST params_, struct ompi_communicator_t *comm, struct ompi_info_t *info,      \
                                  ompi_request_t **request, mca_coll_base_module_t *base)                              \
    {                                                                                                                  \
        mca_coll_mscclpp_module_t *module = (mca_coll_mscclpp_module_t *)base;                                         \
        mca_coll_mscclpp_stage_call_t call = {0};                                                                      \
        mca_coll_mscclpp_stage_request_t *outer;                                                                       \
        int rc;                                                                                                        \
                                                                                                                       \
        describe_##name_(&call, STAGE_LIST args_, comm);                                                               \
        call.counted = MCA_COLL_MSCCLPP_COUNTED_##name_;                                                               \
        if (mca_coll_mscclpp_stage_needed(&call)) {                                                                    \
            call.reason = mca_coll_mscclpp_take_reason(module);                                                        \
        } else {                                                                                                       \
            mca_coll_mscclpp_count_passed(module, call.counted);                                                       \
            if (!mca_coll_mscclpp_stage_needs_hold(&call)) {                                                           \
                return STAGE_PREVIOUS(name_##_init, STAGE_LIST args_, comm, info, request);                            \
            }                                                                                                          \
        }                                                                                                              \
        rc = mca_coll_mscclpp_stage_request_new(&call, module, comm, true, &outer);                                    \
        if (OMPI_SUCCESS != rc) {                                                                                      \
            return rc;                                                                                                 \
        }                                                                                                              \
        use_(outer->stage);                                                                                            \
        rc = STAGE_PREVIOUS(name_##_init, STAGE_LIST args_, comm, info, &outer->inner);                                \
        return mca_coll_mscclpp_stage_request_post(outer, rc, request);                                                \
    }                                                                                                                  \
                                                                                                                       \
    static int checked_##name_(STAGE_LIST params_, struct ompi_communicator_t *comm, mca_coll_base_module_t *base)     \
    {                                                                                                                  \
        STAGE_CHECKED(name_, name_, args_, set_view_, comm);                                                           \
    }                                                                                                                  \
                                                                                                                       \
    static int checked_i##name_(STAGE_LIST params_, struct ompi_communicator_t *comm, ompi_request_t **request,        \
                                mca_coll_base_module_t *base)                                                          \
    {                                                                                                                  \
        STAGE_CHECKED(i##name_, name_, args_, set_view_, comm, request);                                               \
    }                                                                                                                  \
                                                                                                                       \
    static int checked_##name_##_init(STAGE_LIST params_, struct ompi_communicator_t *comm, struct ompi_info_t *info,  \
                                      ompi_request_t **request, mca_coll_base_module_t *base)                          \
    {                                                                                                                  \
        STAGE_CHECKED(name_##_init, name_, args_, set_view_, comm, info, request);                                     \
    }                                                                                                                  \
                                                                                                                       \
    const mca_coll_mscclpp_fn_t(name_) mca_coll_mscclpp_checked_##name_ = checked_##name_;                             \
    const mca_coll_mscclpp_fn_t(i##name_) mca_coll_mscclpp_checked_i##name_ = checked_i##name_;                        \
    const mca_coll_mscclpp_fn_t(name_##_init) mca_coll_mscclpp_checked_##name_##_init = checked_##name_##_init;        \
    const mca_coll_mscclpp_fn_t(name_) mca_coll_mscclpp_stage_##name_ = blocking_##name_;                              \
    const mca_coll_mscclpp_fn_t(i##name_) mca_coll_mscclpp_stage_i##name_ = nonblocking_##name_;                       \
    const mca_coll_mscclpp_fn_t(name_##_init) mca_coll_mscclpp_stage_##name_##_init = persistent_##name_

#endif
