/*
 * Signatures: a rank's arguments of a call, as they are sent, and their comparison. Private to check.c and signature.c.
 */
#ifndef MCA_COLL_MSCCLPP_CHECK_SIGNATURE_H
#define MCA_COLL_MSCCLPP_CHECK_SIGNATURE_H

#include "mca/coll/mscclpp/check/check.h"

/* Bytes of an operation's name, with the terminating zero. */
#define MCA_COLL_MSCCLPP_SIGNATURE_OP 32

/* What one rank sends to the others. The fields are those of mca_coll_mscclpp_check_call_t. */
typedef struct {
    uint32_t function;
    int32_t root;   /* rank; -1000: the function has no root */
    int32_t op;     /* index of a predefined operation, equal on all ranks; -1 or -2: a user's operation; -1000: none */
    uint32_t pairs; /* number of entries in `pair` */
    uint64_t same_to;
    uint64_t count;
    uint64_t size;
    char op_name[MCA_COLL_MSCCLPP_SIGNATURE_OP]; /* for messages */
    mca_coll_mscclpp_check_pair_t pair[];
} mca_coll_mscclpp_signature_t;

/*
 * Makes the signature of a call. call->pairs, if there is one, has `peers` entries. The caller frees the signature by
 * free(). Returns NULL, without a log, if there is no memory. mca_coll_mscclpp_signature_size returns the bytes that
 * the signature takes, its pairs included.
 */
mca_coll_mscclpp_signature_t *mca_coll_mscclpp_signature_new(const mca_coll_mscclpp_check_call_t *call, int peers);
size_t mca_coll_mscclpp_signature_size(const mca_coll_mscclpp_signature_t *signature);

/*
 * Returns true if the calls of all ranks match. Otherwise `text`, of `size` bytes, says what differs, and on which
 * ranks. All ranks get the same result.
 */
bool mca_coll_mscclpp_signatures_match(mca_coll_mscclpp_signature_t *const *signatures, int ranks, char *text,
                                       size_t size);

/*
 * Returns true if two calls match: that of this rank, and that of one rank of an inter-communicator's remote group.
 * Otherwise `text` says what differs.
 */
bool mca_coll_mscclpp_signatures_match_inter(const mca_coll_mscclpp_signature_t *mine, int rank,
                                             const mca_coll_mscclpp_signature_t *theirs, int peer, char *text,
                                             size_t size);

/* Writes the name of a function, such as "MPI_Bcast". */
void mca_coll_mscclpp_signature_name(uint32_t function, char *name, size_t size);

#endif
