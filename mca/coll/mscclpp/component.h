/* Functions that the files of this folder share. */
#ifndef MCA_COLL_MSCCLPP_COMPONENT_H
#define MCA_COLL_MSCCLPP_COMPONENT_H

#include "mca/coll/mscclpp/ompi/module.h"

/*
 * Registers the table of mca/common/base/config.h with Open MPI, under coll_mscclpp_, and reads the values that users
 * have set (params.c). Returns an Open MPI error code.
 */
int mca_coll_mscclpp_register_params(void);

/* Publishes the settings of rank 0, for mca_coll_mscclpp_adopt_settings. Called before MPI_Init's exchange of data. */
void mca_coll_mscclpp_publish_settings(void);

/* Adopts the settings of rank 0, after MPI_Init's exchange of data. Does nothing on rank 0. */
void mca_coll_mscclpp_adopt_settings(void);

/* Makes `--mca coll mscclpp` load and open the components that a communicator cannot do without (widen.c). */
void mca_coll_mscclpp_widen_selection(void);

/*
 * Makes the module of a new communicator, and yields the component's priority (module.c). Returns NULL if this
 * component does not serve the communicator, or if there is no memory.
 */
mca_coll_base_module_t *mca_coll_mscclpp_comm_query(struct ompi_communicator_t *comm, int *priority);

/*
 * Register and remove a callback of opal_progress, in which ranks of teams over several nodes serve one another
 * (progress.c). The callback is registered before there are any such teams: registering later would replace the table
 * of callbacks, which opal_progress in other threads may be using.
 */
int mca_coll_mscclpp_progress_init(void);
void mca_coll_mscclpp_progress_fini(void);

/*
 * Applies the parameters twin_host_ranks and twin_shared_only, for tests (twin.c). `rank` is the rank in
 * MPI_COMM_WORLD.
 */
void mca_coll_mscclpp_twin_hide_buffers(int rank);

#endif
