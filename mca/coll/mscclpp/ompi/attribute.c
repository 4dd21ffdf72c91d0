/*
 * When teams are freed. Open MPI drops a communicator's collective modules too late for it: after MPI_Comm_free has
 * begun to take the communicator apart, and for those that live until MPI_Finalize after the processes have parted.
 * Attributes are deleted first of all: a communicator's at the start of MPI_Comm_free, those of MPI_COMM_SELF at the
 * start of MPI_Finalize. (Those of MPI_COMM_WORLD are not deleted at all by some versions.)
 */
#include "mca/coll/mscclpp/ompi/module.h"

#include "mca/coll/mscclpp/check/check.h"

#include "mca/coll/mscclpp/oob/message.h"
#include "mca/common/base/log.h"

/* How long MPI_Finalize waits for peers that have not given up this process's memory yet. */
#define FINALIZE_SECONDS 5.0

/* Guarded by the component's lock. */
static bool attribute_self_set;

static int comm_deleted(MPI_Comm comm, int key, void *value, void *context)
{
    (void)comm;
    (void)key;
    (void)context;
    mca_coll_mscclpp_check_settle((mca_coll_mscclpp_module_t *)value);
    mca_coll_mscclpp_module_release_team((mca_coll_mscclpp_module_t *)value);
    return MPI_SUCCESS;
}

static bool has_team(const mca_coll_mscclpp_module_t *module)
{
    return NULL != module->team;
}

static bool keeps_comm(const mca_coll_mscclpp_module_t *module)
{
    return module->keeps_comm;
}

/* The lock is not held while one is dealt with, which may take it. */
static mca_coll_mscclpp_module_t *next_that(bool (*is_so)(const mca_coll_mscclpp_module_t *))
{
    mca_coll_mscclpp_component_t *component = &mca_coll_mscclpp_component;
    mca_coll_mscclpp_module_t *module;

    pthread_mutex_lock(&component->lock);
    for (module = component->modules; NULL != module && !is_so(module); module = module->next) {
    }
    pthread_mutex_unlock(&component->lock);
    return module;
}

static int self_deleted(MPI_Comm comm, int key, void *value, void *context)
{
    mca_coll_mscclpp_component_t *component = &mca_coll_mscclpp_component;
    mca_coll_mscclpp_module_t *module;

    (void)comm;
    (void)key;
    (void)value;
    (void)context;
    pthread_mutex_lock(&component->lock);
    component->finalizing = true;
    attribute_self_set = false;
    pthread_mutex_unlock(&component->lock);
    mca_coll_mscclpp_check_settle(NULL);
    while (NULL != (module = next_that(has_team))) {
        mca_coll_mscclpp_module_release_team(module);
    }
    /* Open MPI does not reckon with communicators that are left once it disconnects from other jobs. */
    while (NULL != (module = next_that(keeps_comm))) {
        mca_coll_mscclpp_oob_let_go(module);
    }
    mscclpp_team_finalize(FINALIZE_SECONDS);
    return MPI_SUCCESS;
}

/* A key of its own for each attribute, which goes with it: there is no moment at which to free a common one. */
static int attach(struct ompi_communicator_t *comm, int (*deleted)(MPI_Comm, int, void *, void *), void *value)
{
    ompi_attribute_fn_ptr_union_t copy;
    ompi_attribute_fn_ptr_union_t delete;
    int key = MPI_KEYVAL_INVALID;
    int rc;

    mca_coll_mscclpp_attr_copy_none(&copy); /* a duplicate has a module of its own */
    mca_coll_mscclpp_attr_delete(&delete, deleted);
    rc = ompi_attr_create_keyval(COMM_ATTR, copy, delete, &key, NULL, 0, NULL);
    if (OMPI_SUCCESS == rc) {
        rc = ompi_attr_set_c(COMM_ATTR, comm, &comm->c_keyhash, key, value, false);
        (void)ompi_attr_free_keyval(COMM_ATTR, &key, false);
    }
    if (OMPI_SUCCESS != rc) {
        mscclpp_error("%s: cannot attach the attribute that frees device memory (Open MPI error %d)",
                      mca_coll_mscclpp_comm_name(comm), rc);
    }
    return rc;
}

int mca_coll_mscclpp_attribute_attach_self(void)
{
    struct ompi_communicator_t *self = &ompi_mpi_comm_self.comm;
    int rc = OMPI_SUCCESS;

    /* Setting an attribute that was not there before calls nobody back, so the lock may be held. */
    pthread_mutex_lock(&mca_coll_mscclpp_component.lock);
    if (!attribute_self_set && NULL != self->c_local_group) {
        rc = attach(self, self_deleted, NULL);
        attribute_self_set = OMPI_SUCCESS == rc;
    }
    pthread_mutex_unlock(&mca_coll_mscclpp_component.lock);
    return rc;
}

int mca_coll_mscclpp_attribute_attach(mca_coll_mscclpp_module_t *module)
{
    int rc = mca_coll_mscclpp_attribute_attach_self(); /* if this component does not serve MPI_COMM_SELF */

    return OMPI_SUCCESS == rc ? attach(module->comm, comm_deleted, module) : rc;
}
