/*
 * Hides the differences between Open MPI 4.1, 5.0 and later versions, so that no other file tests a version. No other
 * file includes Open MPI's headers. Their order here is the only one that all series accept: ompi_config.h comes before
 * everything, as it undefines macros of other packages.
 */
#ifndef MCA_COLL_MSCCLPP_OMPI_COMPAT_H
#define MCA_COLL_MSCCLPP_OMPI_COMPAT_H

/* clang-format off */
#include "ompi_config.h"
#include "mpi.h"
/* clang-format on */

#include "ompi/attribute/attribute.h"
#include "ompi/communicator/communicator.h"
#include "ompi/constants.h"
#include "ompi/datatype/ompi_datatype.h"
#include "ompi/datatype/ompi_datatype_internal.h"
#include "ompi/group/group.h"
#include "ompi/mca/coll/base/base.h"
#include "ompi/mca/coll/base/coll_base_util.h"
#include "ompi/mca/coll/base/coll_tags.h"
#include "ompi/mca/coll/coll.h"
#include "ompi/mca/op/base/functions.h"
#include "ompi/mca/pml/pml.h"
#include "ompi/op/op.h"
#include "ompi/proc/proc.h"
#include "ompi/request/request.h"
#include "ompi/runtime/mpiruntime.h"
#include "opal/mca/base/base.h"
#include "opal/mca/base/mca_base_component_repository.h"
#include "opal/mca/base/mca_base_framework.h"
#include "opal/mca/base/mca_base_var.h"
#include "opal/mca/base/mca_base_vari.h"
#include "opal/mca/hwloc/base/base.h"
#if __has_include("opal/mca/pmix/pmix-internal.h")
#include "opal/mca/pmix/pmix-internal.h"
#else
#include "opal/mca/pmix/pmix.h"
#endif
#include "opal/runtime/opal_params.h"
#include "opal/runtime/opal_progress.h"
#include "opal/util/argv.h"
#include "opal/util/output.h"

/*
 * The version in the component structure. Open MPI silently ignores a collective component whose version differs from
 * its own, so this is the newest version that its header defines.
 */
#if defined(MCA_COLL_BASE_VERSION_3_0_0)
#define MCA_COLL_MSCCLPP_BASE_VERSION MCA_COLL_BASE_VERSION_3_0_0
#elif defined(MCA_COLL_BASE_VERSION_2_4_0)
#define MCA_COLL_MSCCLPP_BASE_VERSION MCA_COLL_BASE_VERSION_2_4_0
#elif defined(MCA_COLL_BASE_VERSION_2_0_0)
#define MCA_COLL_MSCCLPP_BASE_VERSION MCA_COLL_BASE_VERSION_2_0_0
#else
#error "this Open MPI has an unknown version of the coll interface"
#endif

/*
 * The type of the function in a slot, taken from the slot itself, since not every slot has a type of the same name. The
 * types of counts, and of arrays of counts and displacements, depend on the version of the interface.
 */
#define mca_coll_mscclpp_fn_t(slot_) __typeof__(((mca_coll_base_comm_coll_t *)NULL)->coll_##slot_)

#if defined(MCA_COLL_BASE_VERSION_3_0_0)
typedef size_t mca_coll_mscclpp_count_t;
typedef ompi_count_array_t mca_coll_mscclpp_counts_t;
typedef ptrdiff_t mca_coll_mscclpp_displ_t;
typedef ompi_disp_array_t mca_coll_mscclpp_displs_t;
#define mca_coll_mscclpp_count_at(counts_, index_) ompi_count_array_get((counts_), (index_))
#define mca_coll_mscclpp_displ_at(displs_, index_) ompi_disp_array_get((displs_), (index_))
#define MCA_COLL_MSCCLPP_COUNTS_OF(counts_, array_) OMPI_COUNT_ARRAY_INIT(&(counts_), (array_))
#define MCA_COLL_MSCCLPP_DISPLS_OF(displs_, array_) OMPI_DISP_ARRAY_INIT(&(displs_), (array_))
#else
typedef int mca_coll_mscclpp_count_t;
typedef const int *mca_coll_mscclpp_counts_t;
typedef int mca_coll_mscclpp_displ_t;
typedef const int *mca_coll_mscclpp_displs_t;
#define mca_coll_mscclpp_count_at(counts_, index_) ((counts_)[index_])
#define mca_coll_mscclpp_displ_at(displs_, index_) ((ptrdiff_t)(displs_)[index_])
#define MCA_COLL_MSCCLPP_COUNTS_OF(counts_, array_) ((counts_) = (array_))
#define MCA_COLL_MSCCLPP_DISPLS_OF(displs_, array_) ((displs_) = (array_))
#endif

/*
 * Up to 5.0 Open MPI fills in the communicator's table: it copies the module's slots after `enable` has returned, and
 * drops the table's references to the previous modules. This module then needs references of its own. In later versions
 * the component fills in the table, and has to put the previous functions back (UNINSTALL).
 */
#if defined(MCA_COLL_INSTALL_API)
#define MCA_COLL_MSCCLPP_SLOT_INSTALL(module_, comm_, slot_, function_)                                                \
    do {                                                                                                               \
        (comm_)->c_coll->coll_##slot_ = (function_);                                                                   \
        (comm_)->c_coll->coll_##slot_##_module = &(module_)->super;                                                    \
    } while (0)
#define MCA_COLL_MSCCLPP_SLOT_UNINSTALL(module_, comm_, slot_)                                                         \
    do {                                                                                                               \
        if ((comm_)->c_coll->coll_##slot_##_module == &(module_)->super) {                                             \
            (comm_)->c_coll->coll_##slot_ = (module_)->previous.slot_;                                                 \
            (comm_)->c_coll->coll_##slot_##_module = (module_)->previous.slot_##_module;                               \
        }                                                                                                              \
    } while (0)
#define MCA_COLL_MSCCLPP_PREVIOUS_RETAIN(previous_) ((void)(previous_))
#define MCA_COLL_MSCCLPP_PREVIOUS_RELEASE(previous_) ((void)(previous_))
#else
#define MCA_COLL_MSCCLPP_SLOT_INSTALL(module_, comm_, slot_, function_) ((module_)->super.coll_##slot_ = (function_))
#define MCA_COLL_MSCCLPP_SLOT_UNINSTALL(module_, comm_, slot_) ((void)(comm_))
#define MCA_COLL_MSCCLPP_PREVIOUS_RETAIN(previous_) OBJ_RETAIN(previous_)
#define MCA_COLL_MSCCLPP_PREVIOUS_RELEASE(previous_) OBJ_RELEASE(previous_)
#endif

/*
 * The list of components linked into Open MPI is an array of pointers, or, where this macro exists, of pointers to
 * them.
 */
#if defined(MCA_BASE_COMPONENT_INIT)
#define mca_coll_mscclpp_static_component(framework_, index_) (*(framework_)->framework_static_components[index_])
#else
#define mca_coll_mscclpp_static_component(framework_, index_) ((framework_)->framework_static_components[index_])
#endif

/*
 * Attribute callbacks are members of a union. The names of the members' types differ between versions, and so do the
 * arguments of the null copy function. Open MPI itself uses the same cast for that function.
 */
#define mca_coll_mscclpp_attr_copy_none(union_p_)                                                                      \
    ((union_p_)->attr_communicator_copy_fn =                                                                           \
         (__typeof__((union_p_)->attr_communicator_copy_fn))(void (*)(void))MPI_COMM_NULL_COPY_FN)
#define mca_coll_mscclpp_attr_delete(union_p_, function_)                                                              \
    ((union_p_)->attr_communicator_delete_fn = (__typeof__((union_p_)->attr_communicator_delete_fn))(function_))

#define mca_coll_mscclpp_attr_type_copy_none(union_p_)                                                                 \
    ((union_p_)->attr_datatype_copy_fn =                                                                               \
         (__typeof__((union_p_)->attr_datatype_copy_fn))(void (*)(void))MPI_TYPE_NULL_COPY_FN)
#define mca_coll_mscclpp_attr_type_delete(union_p_, function_)                                                         \
    ((union_p_)->attr_datatype_delete_fn = (__typeof__((union_p_)->attr_datatype_delete_fn))(function_))

/* The exchange among ranks in MPI_Init (modex). Open MPI's own programs load components without one. */
#if __has_include("opal/mca/pmix/pmix-internal.h")
#define MCA_COLL_MSCCLPP_MODEX_GLOBAL PMIX_GLOBAL
#define MCA_COLL_MSCCLPP_HAVE_MODEX (PMIx_Initialized())
#else
#define MCA_COLL_MSCCLPP_MODEX_GLOBAL OPAL_PMIX_GLOBAL
#define MCA_COLL_MSCCLPP_HAVE_MODEX (opal_pmix.put != NULL && opal_pmix.get != NULL)
#endif

/*
 * The tag of this component's messages. No other collective component may use the tag at the same time, because this
 * component receives from any source. The tag is the one reserved for UCC, which no longer uses it by the time this
 * component is asked. In 4.1, UCC's tag does not fit the 24 bits that pml/ucx has for tags, and would become one of the
 * tags that nonblocking collectives count through. Tags -2 to -9 are free there.
 */
#if MCA_COLL_BASE_TAG_UCC >= -0x800000
#define MCA_COLL_MSCCLPP_TAG MCA_COLL_BASE_TAG_UCC
#else
#define MCA_COLL_MSCCLPP_TAG (-5)
#endif

/* The error code and the test for a communicator that ULFM has revoked, so that it can finish no more collectives. */
#if defined(OPAL_ENABLE_FT_MPI) && OPAL_ENABLE_FT_MPI
#define MCA_COLL_MSCCLPP_ERR_REVOKED MPI_ERR_REVOKED
static inline bool mca_coll_mscclpp_comm_revoked(struct ompi_communicator_t *comm)
{
    return ompi_comm_is_revoked(comm) || ompi_comm_coll_revoked(comm);
}
#else
#define MCA_COLL_MSCCLPP_ERR_REVOKED MPI_ERR_OTHER
static inline bool mca_coll_mscclpp_comm_revoked(struct ompi_communicator_t *comm)
{
    (void)comm;
    return false;
}
#endif

#endif
