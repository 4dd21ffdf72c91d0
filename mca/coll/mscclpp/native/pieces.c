/* Keeps a type's list of pieces as an attribute of the type, so that Open MPI frees the list with the type. */
#include "mca/coll/mscclpp/native/pieces.h"

#include <stdlib.h>

#include "mca/coll/mscclpp/stage/stage.h"
#include "mca/common/base/log.h"

/* The pieces of one element of a type. The list is stored as an attribute of the type. */
typedef struct {
    size_t count;
    mscclpp_coll_piece_t piece[];
} list_t;

/*
 * The key of the attribute that contains a type's list of pieces. The lock protects the key, and prevents two threads
 * from attaching a list each to the same type.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int key = MPI_KEYVAL_INVALID;

/* Frees a list. Open MPI calls this when its datatype is freed. */
static int free_list(MPI_Datatype type, int keyval, void *value, void *context)
{
    (void)type;
    (void)keyval;
    (void)context;
    free(value);
    return MPI_SUCCESS;
}

/* Makes the key, if there is none. The caller holds the lock. Returns an Open MPI error code. */
static int ensure_key(void)
{
    ompi_attribute_fn_ptr_union_t copy;
    ompi_attribute_fn_ptr_union_t delete;

    if (MPI_KEYVAL_INVALID != key) {
        return OMPI_SUCCESS;
    }
    mca_coll_mscclpp_attr_type_copy_none(&copy); /* a duplicate of the type gets its own list */
    mca_coll_mscclpp_attr_type_delete(&delete, free_list);
    return ompi_attr_create_keyval(TYPE_ATTR, copy, delete, &key, NULL, 0, NULL);
}

/*
 * Makes a type's list of pieces, which the caller attaches to the type or frees. Returns an MPI error code, which has
 * been logged. *list_p is valid on success only.
 */
static int make_list(struct ompi_datatype_t *type, list_t **list_p)
{
    mca_coll_mscclpp_stage_pieces_t element;
    list_t *list = NULL;
    int rc = mca_coll_mscclpp_stage_element_pieces(&element, type);

    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    list = malloc(sizeof(*list) + element.used * sizeof(list->piece[0]));
    if (list != NULL) {
        list->count = element.used;
        for (size_t i = 0; i < element.used; ++i) {
            list->piece[i].offset = element.pieces[i].offset;
            list->piece[i].length = element.pieces[i].length;
            list->piece[i].count = element.pieces[i].count;
            list->piece[i].stride = element.pieces[i].stride;
        }
    } else {
        mscclpp_error("out of memory for the %zu parts of a datatype", element.used);
        rc = MPI_ERR_NO_MEM;
    }
    mca_coll_mscclpp_stage_element_release(&element);
    *list_p = list;
    return rc;
}

/*
 * Yields the list of a type, and first makes and attaches it if the type has none. The caller holds the lock. Returns
 * an error code as mca_coll_mscclpp_pieces_get does. An error leaves the type without a list.
 */
static int ensure_list(struct ompi_datatype_t *type, list_t **list_p)
{
    void *value = NULL;
    int has_list = 0;
    int rc = ensure_key();

    if (OMPI_SUCCESS == rc) {
        rc = ompi_attr_get_c(type->d_keyhash, key, &value, &has_list);
    }
    if (OMPI_SUCCESS != rc || has_list) {
        *list_p = value;
        return rc;
    }
    rc = make_list(type, list_p);
    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    rc = ompi_attr_set_c(TYPE_ATTR, type, &type->d_keyhash, key, *list_p, false);
    if (OMPI_SUCCESS != rc) {
        free(*list_p);
    }
    return rc;
}

int mca_coll_mscclpp_pieces_get(const struct ompi_datatype_t *type, const mscclpp_coll_piece_t **pieces_p,
                                size_t *count_p)
{
    struct ompi_datatype_t *owner = (struct ompi_datatype_t *)type; /* only the attributes of the type change */
    list_t *list;
    int rc;

    mscclpp_fiber_close(); /* Open MPI's functions for attributes must not be called in a fiber */
    pthread_mutex_lock(&lock);
    rc = ensure_list(owner, &list);
    pthread_mutex_unlock(&lock);
    if (OMPI_SUCCESS == rc) {
        *pieces_p = list->piece;
        *count_p = list->count;
    }
    return rc;
}
