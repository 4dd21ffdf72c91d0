/* Modules, one for each communicator: take slots of its table of functions, and give them back. */
#include "mca/coll/mscclpp/component.h"

#include "mca/coll/mscclpp/check/check.h"

#include <stdlib.h>
#include <string.h>

#include "mca/coll/mscclpp/native/gate.h"
#include "mca/coll/mscclpp/native/native.h"
#include "mca/coll/mscclpp/stage/stage.h"
#include "mca/common/base/log.h"

/* Clears the module. The constructor, also of a spare module that is used again. */
static void module_construct(mca_coll_mscclpp_module_t *module)
{
    /*
     * Clears everything behind the object header, including the parent class, whose constructor does not clear its
     * slots.
     */
    memset((char *)module + sizeof(opal_object_t), 0, sizeof(*module) - sizeof(opal_object_t));
}

/*
 * Spare modules, used when there is no memory for a new one. Without a module another component would serve this rank.
 * Its peers would not know this, and wait for it in their first call. With a spare module this rank takes part, or
 * tells its peers that it cannot. Each spare has an extra reference, so that Open MPI does not free it. It can be used
 * again when only that reference is left.
 */
#define SPARES 64

static mca_coll_mscclpp_module_t spares[SPARES]; /* the component's lock guards which of them are in use */
static int spares_made;                          /* number of spares that have been constructed, from the first on */

static bool is_spare(const mca_coll_mscclpp_module_t *module)
{
    return (uintptr_t)module >= (uintptr_t)spares && (uintptr_t)module < (uintptr_t)(spares + SPARES);
}

/*
 * Takes an unused spare module, in the state of a new one. Open MPI releases it like any other module. Returns NULL,
 * without a log, if all spare modules are in use.
 */
static mca_coll_mscclpp_module_t *spare_take(void)
{
    mca_coll_mscclpp_module_t *module = NULL;
    bool is_reused = false;

    pthread_mutex_lock(&mca_coll_mscclpp_state.lock);
    for (int i = 0; i < spares_made && !is_reused; ++i) {
        module = &spares[i];
        is_reused = 1 == module->super.super.obj_reference_count;
    }
    if (is_reused) {
        OBJ_RETAIN(module);
    } else if (spares_made < SPARES) {
        module = &spares[spares_made++];
        OBJ_CONSTRUCT(module, mca_coll_mscclpp_module_t);
        OBJ_RETAIN(module);
    } else {
        module = NULL;
    }
    pthread_mutex_unlock(&mca_coll_mscclpp_state.lock);
    /*
     * Done without the lock, because the destructor takes the lock. No other thread can take this spare meanwhile,
     * because its count of references is 2.
     */
    if (is_reused) {
        opal_obj_run_destructors(&module->super.super);
        opal_obj_run_constructors(&module->super.super);
    }
    return module;
}

/* Releases the references to the modules of the components before this one, and forgets their functions. */
static void release_previous(mca_coll_mscclpp_module_t *module)
{
#define RELEASE(slot_)                                                                                                 \
    if (module->previous.slot_##_module != NULL) {                                                                     \
        MCA_COLL_MSCCLPP_PREVIOUS_RELEASE(module->previous.slot_##_module);                                            \
    }
    MCA_COLL_MSCCLPP_SLOTS(RELEASE)
#undef RELEASE
    memset(&module->previous, 0, sizeof(module->previous));
}

/*
 * Ends what the module still has. Open MPI may not have disabled the module before, so everything that module_disable
 * ends is ended here, too.
 */
static void module_destruct(mca_coll_mscclpp_module_t *module)
{
    mca_coll_mscclpp_list_remove(module);
    mca_coll_mscclpp_wait_for_watchers(module);
    mca_coll_mscclpp_module_release_team(module);
    release_previous(module);
    free(module->edges_in);
    free(module->edges_out);
}

OBJ_CLASS_INSTANCE(mca_coll_mscclpp_module_t, mca_coll_base_module_t, module_construct, module_destruct);

/*
 * Keeps the function that served a slot before this module, if there was one. Open MPI always sets a function together
 * with its module.
 */
#define SAVE(slot_)                                                                                                    \
    if (comm->c_coll->coll_##slot_ != NULL && comm->c_coll->coll_##slot_##_module != NULL) {                           \
        module->previous.slot_ = comm->c_coll->coll_##slot_;                                                           \
        module->previous.slot_##_module = comm->c_coll->coll_##slot_##_module;                                         \
        MCA_COLL_MSCCLPP_PREVIOUS_RETAIN(module->previous.slot_##_module);                                             \
    }

/* Puts a function of this module into a slot, if another component serves the slot, too. */
#define INSTALL(slot_, function_)                                                                                      \
    if (module->previous.slot_ != NULL && (function_) != NULL) {                                                       \
        module->own_functions.slot_ = (function_);                                                                     \
        MCA_COLL_MSCCLPP_SLOT_INSTALL(module, comm, slot_, (function_));                                               \
    }

/* Puts the function that compares calls (check_calls) in front of the one that serves a slot. Used after INSTALL. */
#define INSTALL_CHECK(slot_)                                                                                           \
    if (module->previous.slot_ != NULL) {                                                                              \
        MCA_COLL_MSCCLPP_SLOT_INSTALL(module, comm, slot_, mca_coll_mscclpp_checked_##slot_);                          \
    }

/*
 * Puts this module's functions into the communicator's table, and keeps the functions that they replace. Open MPI
 * enables modules in ascending order of priority, so the table still holds the functions that would serve without this
 * component. MPI_Comm_idup calls this function inside opal_progress, so nothing here may wait or communicate. Returns
 * OMPI_ERR_NOT_AVAILABLE if no other component offers all-reduce, which this component needs to stage calls and to
 * serve host memory.
 */
static int module_enable(mca_coll_base_module_t *base, struct ompi_communicator_t *comm)
{
    mca_coll_mscclpp_module_t *module = (mca_coll_mscclpp_module_t *)base;
    bool is_intra = !OMPI_COMM_IS_INTER(comm);

    if (comm->c_coll->coll_allreduce == NULL || comm->c_coll->coll_allreduce_module == NULL) {
        mscclpp_info("%s: no other component offers allreduce; not used", mca_coll_mscclpp_comm_name(comm));
        return OMPI_ERR_NOT_AVAILABLE;
    }
    MCA_COLL_MSCCLPP_SLOTS(SAVE)
    if (mca_coll_mscclpp_state.stage_others) {
#define INSTALL_STAGE(slot_) INSTALL(slot_, mca_coll_mscclpp_stage_##slot_)
        MCA_COLL_MSCCLPP_ALL(INSTALL_STAGE)
#undef INSTALL_STAGE
    }
    /* Kernels serve intra-communicators only. Their functions replace those that stage. */
    if (is_intra) {
        INSTALL(allreduce, mca_coll_mscclpp_allreduce)
#define INSTALL_NATIVE(slot_) INSTALL(slot_, mca_coll_mscclpp_native_##slot_)
#define INSTALL_LATER(slot_)                                                                                           \
    INSTALL_NATIVE(i##slot_)                                                                                           \
    INSTALL_NATIVE(slot_##_init)
        MCA_COLL_MSCCLPP_NATIVE(INSTALL_NATIVE)
        MCA_COLL_MSCCLPP_NATIVE(INSTALL_LATER)
        INSTALL_LATER(barrier)
        INSTALL_LATER(allreduce)
#undef INSTALL_LATER
#undef INSTALL_NATIVE
    }
    if (mca_coll_mscclpp_state.config.check_calls) {
        MCA_COLL_MSCCLPP_COLLECTIVES(INSTALL_CHECK)
    }
    module->is_enabled = true;
    if (is_intra) {
        mca_coll_mscclpp_list_insert(module);
    }
    if (comm == &ompi_mpi_comm_self.comm) {
        (void)mca_coll_mscclpp_bind_self();
    }
    return OMPI_SUCCESS;
}

/*
 * Puts the previous functions back, and releases the team. Always succeeds. Open MPI up to 5.0 calls this function once
 * for each slot that the module holds, and never if the module holds none. So only the first call does anything.
 */
static int module_disable(mca_coll_base_module_t *base, struct ompi_communicator_t *comm)
{
    mca_coll_mscclpp_module_t *module = (mca_coll_mscclpp_module_t *)base;

    if (!module->is_enabled) {
        return OMPI_SUCCESS;
    }
    module->is_enabled = false;
#define UNINSTALL(slot_) MCA_COLL_MSCCLPP_SLOT_UNINSTALL(module, comm, slot_);
    MCA_COLL_MSCCLPP_SLOTS(UNINSTALL)
#undef UNINSTALL
    /*
     * Takes the module off the list first. Then waits for threads that have found it there, before anything that they
     * may read is freed.
     */
    mca_coll_mscclpp_list_remove(module);
    mca_coll_mscclpp_wait_for_watchers(module);
    mca_coll_mscclpp_module_release_team(module);
    if (0 != module->served || 0 != module->staged) {
        char reasons[768];

        mca_coll_mscclpp_describe_staged(module, reasons, sizeof(reasons));
        mscclpp_info("%s: %llu calls served by kernels, %llu staged%s", mca_coll_mscclpp_comm_name(comm),
                     (unsigned long long)module->served, (unsigned long long)module->staged, reasons);
    }
    if (is_spare(module)) {
        release_previous(module); /* their code may be unloaded before this spare is used again */
    }
    return OMPI_SUCCESS;
}

/*
 * Returns NULL if this component does not serve the communicator, or, after an error message, if there is no memory and
 * no spare module is left. Open MPI calls this for each new communicator.
 */
mca_coll_base_module_t *mca_coll_mscclpp_comm_query(struct ompi_communicator_t *comm, int *priority)
{
    mca_coll_mscclpp_state_t *state = &mca_coll_mscclpp_state;
    mca_coll_mscclpp_module_t *module;

    /*
     * This component also serves communicators of one process and inter-communicators, because other components cannot
     * take device buffers there.
     */
    if (state->gpu == NULL || (OMPI_COMM_IS_INTER(comm) && !state->stage_others && !state->config.check_calls)) {
        return NULL;
    }
    if (comm == &ompi_mpi_comm_world.comm) {
        mca_coll_mscclpp_twin_hide_buffers(ompi_comm_rank(comm));
    }
    module = OBJ_NEW(mca_coll_mscclpp_module_t);
    if (module == NULL) {
        module = spare_take();
    }
    if (module == NULL) {
        mscclpp_error("%s: no memory for a module, and the %d spare ones are in use: this rank does not serve the "
                      "communicator, which the other ranks do not know",
                      mca_coll_mscclpp_comm_name(comm), SPARES);
        return NULL;
    }
    module->comm = comm;
    module->super.coll_module_enable = module_enable;
    module->super.coll_module_disable = module_disable;
    *priority = state->config.priority;
    return &module->super;
}
