/*
 * Generates the functions of a collective that kernels serve: blocking, nonblocking and persistent. The functions of
 * different collectives differ only in their parameters, so they are written once, in this file.
 */
#ifndef MCA_COLL_MSCCLPP_NATIVE_DEFINE_H
#define MCA_COLL_MSCCLPP_NATIVE_DEFINE_H

#include "mca/coll/mscclpp/native/lane.h"
#include "mca/coll/mscclpp/native/native.h"
#include "mca/coll/mscclpp/native/queued.h"
#include "mca/coll/mscclpp/stage/stage.h"

typedef mca_coll_mscclpp_native_t call_t;
typedef mca_coll_mscclpp_count_t count_t;
typedef mca_coll_mscclpp_counts_t counts_t;
typedef mca_coll_mscclpp_displs_t displs_t;
typedef struct ompi_datatype_t type_t;

/*
 * NATIVE generates all functions of the collective `name_`. `params_` are its parameters and `args_` their names, both
 * in parentheses.
 *
 * The function fill_<name> has to exist. It describes a call's arguments in `call`, and returns false if there is
 * nothing to do. Calls that kernels do not serve are staged, or passed to Open MPI's other components if these accept
 * device buffers.
 *
 * The result of mca_coll_mscclpp_native_begin is ignored where the communicator is known to have at most
 * MSCCLPP_DEV_MAX_RANKS ranks. That function then allocates no memory and cannot fail. MCA_COLL_MSCCLPP_KEEP and
 * MCA_COLL_MSCCLPP_KEPT write and read the member `passed` of a structure, hence the structures with that member alone.
 *
 * The functions for MPI are blocking_<name>, nonblocking_<name> and persistent_<name>. The other functions:
 *     other_<name>, other_i<name>, other_<name>_init: serve a call without kernels
 *     describe_<name>: describes a queued call, or the starts of a persistent request
 *     in_turn_<name>: serves a nonblocking call when its turn comes
 *     hand_over_<name>: passes a nonblocking call to another component
 */
#define LIST(...) __VA_ARGS__
#define NATIVE(name_, id_, params_, args_)                                                                             \
    static int other_##name_(LIST params_, struct ompi_communicator_t *comm, mca_coll_mscclpp_module_t *module)        \
    {                                                                                                                  \
        if (mca_coll_mscclpp_state.stage_others) {                                                                     \
            return mca_coll_mscclpp_stage_##name_(LIST args_, comm, &module->super);                                   \
        }                                                                                                              \
        mca_coll_mscclpp_count_passed(module, MCA_COLL_MSCCLPP_COUNTED_##name_);                                       \
        return module->previous.name_(LIST args_, comm, module->previous.name_##_module);                              \
    }                                                                                                                  \
                                                                                                                       \
    static int blocking_##name_(LIST params_, struct ompi_communicator_t *comm, mca_coll_base_module_t *base)          \
    {                                                                                                                  \
        mca_coll_mscclpp_module_t *module = (mca_coll_mscclpp_module_t *)base;                                         \
        call_t call;                                                                                                   \
        int rc;                                                                                                        \
                                                                                                                       \
        rc = mca_coll_mscclpp_native_begin(&call, module, MSCCLPP_COLL_##id_);                                         \
        if (OMPI_SUCCESS != rc) {                                                                                      \
            return rc;                                                                                                 \
        }                                                                                                              \
        if (fill_##name_(&call, ompi_comm_rank(comm), LIST args_) &&                                                   \
            !mca_coll_mscclpp_native_serve(module, &call, &rc)) {                                                      \
            rc = other_##name_(LIST args_, comm, module);                                                              \
            mca_coll_mscclpp_native_leave(module);                                                                     \
        }                                                                                                              \
        mca_coll_mscclpp_native_end(&call);                                                                            \
        return rc;                                                                                                     \
    }                                                                                                                  \
    const mca_coll_mscclpp_fn_t(name_) mca_coll_mscclpp_native_##name_ = blocking_##name_;                             \
                                                                                                                       \
    static bool describe_##name_(call_t *call, mca_coll_mscclpp_module_t *module,                                      \
                                 const mca_coll_mscclpp_passed_t *passed)                                              \
    {                                                                                                                  \
        const struct {                                                                                                 \
            mca_coll_mscclpp_passed_t passed;                                                                          \
        } *kept = (const void *)passed;                                                                                \
                                                                                                                       \
        (void)mca_coll_mscclpp_native_begin(call, module, MSCCLPP_COLL_##id_);                                         \
        return fill_##name_(call, ompi_comm_rank(module->comm), MCA_COLL_MSCCLPP_KEPT(kept, args_));                   \
    }                                                                                                                  \
    const mca_coll_mscclpp_describe_fn_t mca_coll_mscclpp_native_describe_##name_ = describe_##name_;                  \
                                                                                                                       \
    static int other_i##name_(LIST params_, struct ompi_communicator_t *comm, ompi_request_t **request_p,              \
                              mca_coll_mscclpp_module_t *module)                                                       \
    {                                                                                                                  \
        if (mca_coll_mscclpp_state.stage_others) {                                                                     \
            return mca_coll_mscclpp_stage_i##name_(LIST args_, comm, request_p, &module->super);                       \
        }                                                                                                              \
        mca_coll_mscclpp_count_passed(module, MCA_COLL_MSCCLPP_COUNTED_##name_);                                       \
        return module->previous.i##name_(LIST args_, comm, request_p, module->previous.i##name_##_module);             \
    }                                                                                                                  \
                                                                                                                       \
    static int hand_over_##name_(mca_coll_mscclpp_request_t *request)                                                  \
    {                                                                                                                  \
        mscclpp_fiber_close();                                                                                         \
        return other_i##name_(MCA_COLL_MSCCLPP_KEPT(request, args_), request->module->comm, &request->inner,           \
                              request->module);                                                                        \
    }                                                                                                                  \
                                                                                                                       \
    static int in_turn_##name_(mca_coll_mscclpp_request_t *request)                                                    \
    {                                                                                                                  \
        mca_coll_mscclpp_module_t *module = request->module;                                                           \
        call_t call;                                                                                                   \
        int rc = OMPI_SUCCESS;                                                                                         \
                                                                                                                       \
        (void)mca_coll_mscclpp_native_begin(&call, module, MSCCLPP_COLL_##id_);                                        \
        if (fill_##name_(&call, ompi_comm_rank(module->comm), MCA_COLL_MSCCLPP_KEPT(request, args_)) &&                \
            !mca_coll_mscclpp_native_serve_later(module, &call, &rc)) {                                                \
            rc = hand_over_##name_(request);                                                                           \
        }                                                                                                              \
        mca_coll_mscclpp_native_end(&call);                                                                            \
        return rc;                                                                                                     \
    }                                                                                                                  \
                                                                                                                       \
    static int nonblocking_##name_(LIST params_, struct ompi_communicator_t *comm, ompi_request_t **request_p,         \
                                   mca_coll_base_module_t *base)                                                       \
    {                                                                                                                  \
        mca_coll_mscclpp_module_t *module = (mca_coll_mscclpp_module_t *)base;                                         \
        const bool is_excluded = mca_coll_mscclpp_native_excludes_nonblocking(module);                                 \
        mca_coll_mscclpp_request_t *request;                                                                           \
        call_t call;                                                                                                   \
                                                                                                                       \
        if (mca_coll_mscclpp_request_is_idle(module)) {                                                                \
            bool goes_at_once = is_excluded;                                                                           \
                                                                                                                       \
            if (!is_excluded && !mca_coll_mscclpp_native_has_team(module)) {                                           \
                (void)mca_coll_mscclpp_native_begin(&call, module, MSCCLPP_COLL_##id_);                                \
                (void)fill_##name_(&call, ompi_comm_rank(comm), LIST args_);                                           \
                goes_at_once = mca_coll_mscclpp_native_pass_at_once(module, &call);                                    \
                mca_coll_mscclpp_native_end(&call);                                                                    \
            }                                                                                                          \
            if (goes_at_once) {                                                                                        \
                return other_i##name_(LIST args_, comm, request_p, module);                                            \
            }                                                                                                          \
        }                                                                                                              \
        request =                                                                                                      \
            mca_coll_mscclpp_request_new(module, is_excluded ? hand_over_##name_ : in_turn_##name_, !is_excluded);     \
        if (request == NULL) {                                                                                         \
            return MPI_ERR_NO_MEM;                                                                                     \
        }                                                                                                              \
        MCA_COLL_MSCCLPP_KEEP(request, args_);                                                                         \
        return mca_coll_mscclpp_request_submit(request, request_p);                                                    \
    }                                                                                                                  \
                                                                                                                       \
    static int other_##name_##_init(LIST params_, struct ompi_communicator_t *comm, struct ompi_info_t *info,          \
                                    ompi_request_t **request_p, mca_coll_mscclpp_module_t *module)                     \
    {                                                                                                                  \
        if (mca_coll_mscclpp_state.stage_others) {                                                                     \
            return mca_coll_mscclpp_stage_##name_##_init(LIST args_, comm, info, request_p, &module->super);           \
        }                                                                                                              \
        mca_coll_mscclpp_count_passed(module, MCA_COLL_MSCCLPP_COUNTED_##name_);                                       \
        return module->previous.name_##_init(LIST args_, comm, info, request_p, module->previous.name_##_init_module); \
    }                                                                                                                  \
                                                                                                                       \
    static int persistent_##name_(LIST params_, struct ompi_communicator_t *comm, struct ompi_info_t *info,            \
                                  ompi_request_t **request_p, mca_coll_base_module_t *base)                            \
    {                                                                                                                  \
        mca_coll_mscclpp_module_t *module = (mca_coll_mscclpp_module_t *)base;                                         \
        struct {                                                                                                       \
            mca_coll_mscclpp_passed_t passed;                                                                          \
        } kept = {.passed = {.sbuf = NULL}};                                                                           \
        mca_coll_mscclpp_lane_t *lane = NULL;                                                                          \
        call_t call;                                                                                                   \
        int rc;                                                                                                        \
                                                                                                                       \
        mca_coll_mscclpp_request_await(module);                                                                        \
        rc = mca_coll_mscclpp_native_begin(&call, module, MSCCLPP_COLL_##id_);                                         \
        if (OMPI_SUCCESS != rc) {                                                                                      \
            return rc;                                                                                                 \
        }                                                                                                              \
        if (call.ranks <= MSCCLPP_DEV_MAX_RANKS && fill_##name_(&call, ompi_comm_rank(comm), LIST args_)) {            \
            rc = mca_coll_mscclpp_native_make_lane(module, &call, &lane);                                              \
        }                                                                                                              \
        mca_coll_mscclpp_native_end(&call);                                                                            \
        if (OMPI_SUCCESS != rc) {                                                                                      \
            return rc;                                                                                                 \
        }                                                                                                              \
        if (lane == NULL) {                                                                                            \
            return other_##name_##_init(LIST args_, comm, info, request_p, module);                                    \
        }                                                                                                              \
        MCA_COLL_MSCCLPP_KEEP(&kept, args_);                                                                           \
        return mca_coll_mscclpp_native_make_request(lane, MSCCLPP_COLL_##id_, &kept.passed, describe_##name_,          \
                                                    call.args.largest_block, request_p);                               \
    }                                                                                                                  \
    const mca_coll_mscclpp_fn_t(i##name_) mca_coll_mscclpp_native_i##name_ = nonblocking_##name_;                      \
    const mca_coll_mscclpp_fn_t(name_##_init) mca_coll_mscclpp_native_##name_##_init = persistent_##name_

#endif
