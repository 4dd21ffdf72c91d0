/* The places of the data of one element of a type, which are determined once for each type. */
#ifndef MCA_COLL_MSCCLPP_NATIVE_PIECES_H
#define MCA_COLL_MSCCLPP_NATIVE_PIECES_H

#include "mca/coll/mscclpp/ompi/module.h"

#include "mca/common/algo/coll.h"

/*
 * Yields the pieces of one element in the order of its type map, which is also the order in which they are packed. The
 * type owns the list, which stays until the type is freed. Thread-safe. Returns an MPI error code, which has been
 * logged, or an error code of Open MPI's attributes, which has not. After an error the results are not set.
 */
int mca_coll_mscclpp_pieces_get(const struct ompi_datatype_t *type, const mscclpp_coll_piece_t **pieces_p,
                                size_t *count_p);

#endif
