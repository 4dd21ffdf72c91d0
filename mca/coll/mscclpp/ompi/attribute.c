/* Callbacks at the start of MPI_Comm_free and of MPI_Finalize. */
#include "mca/coll/mscclpp/ompi/module.h"

#include "mca/common/base/log.h"

/* Whether MPI_COMM_SELF has the attribute. Guarded by the component's lock. */
static bool has_self_attribute;

/* The function to call when the attribute of MPI_COMM_SELF is deleted. Does not change while there is the attribute. */
static void (*call_at_finalize)(void);

/*
 * Calls call_at_finalize. Open MPI deletes the attributes of MPI_COMM_SELF at the start of MPI_Finalize. The called
 * function may take the component's lock, which is therefore not held.
 */
static int self_deleted(MPI_Comm comm, int key, void *value, void *context)
{
    (void)comm;
    (void)key;
    (void)value;
    (void)context;
    pthread_mutex_lock(&mca_coll_mscclpp_state.lock);
    has_self_attribute = false;
    pthread_mutex_unlock(&mca_coll_mscclpp_state.lock);
    call_at_finalize();
    return MPI_SUCCESS;
}

/*
 * Each attribute has a key of its own, which Open MPI frees together with the attribute. A common key could be freed
 * only after the last attribute, which is never known to be the last.
 */
int mca_coll_mscclpp_attribute_attach(struct ompi_communicator_t *comm, mca_coll_mscclpp_deleted_fn_t deleted,
                                      void *value)
{
    ompi_attribute_fn_ptr_union_t copy;
    ompi_attribute_fn_ptr_union_t delete;
    int key = MPI_KEYVAL_INVALID;
    int rc;

    mca_coll_mscclpp_attr_copy_none(&copy); /* a duplicate has its own module */
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

int mca_coll_mscclpp_attribute_attach_self(void (*ended)(void))
{
    struct ompi_communicator_t *self = &ompi_mpi_comm_self.comm;
    int rc = OMPI_SUCCESS;

    /* The lock may be held here, because setting a new attribute calls no callback. */
    pthread_mutex_lock(&mca_coll_mscclpp_state.lock);
    if (!has_self_attribute && self->c_local_group != NULL) {
        call_at_finalize = ended;
        rc = mca_coll_mscclpp_attribute_attach(self, self_deleted, NULL);
        has_self_attribute = OMPI_SUCCESS == rc;
    }
    pthread_mutex_unlock(&mca_coll_mscclpp_state.lock);
    return rc;
}
