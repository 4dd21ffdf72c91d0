/*
 * The execution plans of a process: files and folders, read once and checked. A refused file stays in the list with the
 * reason, so that ranks can compare their lists.
 */
#ifndef MCA_COMMON_PLAN_LIBRARY_H
#define MCA_COMMON_PLAN_LIBRARY_H

#include "mca/common/base/status.h"
#include "mca/common/plan/plan.h"

/* How much is done beyond the checks that need no simulation, which every plan has to pass. */
typedef enum {
    MSCCLPP_PLAN_PROVE_NONE,    /* nothing */
    MSCCLPP_PLAN_PROVE_PACKETS, /* whether packets have to order other stores, where that is not obvious */
    MSCCLPP_PLAN_PROVE_ALL      /* the whole simulation */
} mscclpp_plan_prove_t;

/* One file. The fields after `plan` are set only if `plan` is not NULL. */
typedef struct {
    char *path;
    char *refusal; /* one line: why the file is not used; NULL: it is used */
    uint64_t digest;
    bool told; /* a message about it was logged; it is logged once */

    mscclpp_plan_t *plan;
    bool alone;        /* its collective is none of MPI's: programs run it by its name */
    char *label;       /* "plan:" and the name, without what cannot be printed */
    uint32_t blocks;   /* most blocks of a rank */
    uint32_t channels; /* most memory and port channels of a rank, together */
    uint32_t chunks;   /* see mscclpp_plan_block_chunks */
    uint32_t unit;     /* the bytes of a chunk are a multiple of this */
    bool crosses;      /* an operation reaches over the end of a rank's block */
    bool shares;       /* ranks access the input or output of their peers */
    bool writes_input; /* it writes the input, although it is not in place */
    bool mixes;        /* the scratch holds packets and other data */
    bool may_order;    /* packets may have to order other stores */
    bool extreme;      /* it serves only the operation `reduce`: min or max */
    bool multicast;    /* it has operations on switch channels */
    mscclpp_plan_reduce_t reduce;
    mscclpp_plan_prove_t proven;
} mscclpp_plan_file_t;

typedef struct mscclpp_plan_library mscclpp_plan_library_t;

/*
 * `places`: files and folders, separated by commas or colons. Of a folder all files whose names end in .json are taken,
 * in the order of their names. Nothing is read yet. NULL, logged, without memory.
 */
mscclpp_plan_library_t *mscclpp_plan_library_create(const char *places);
void mscclpp_plan_library_destroy(mscclpp_plan_library_t *library); /* NULL is allowed */

/*
 * Reads and checks all files at the first call. Returns their number; *files_p is the list, whose entries stay where
 * they are. Thread-safe. A NULL library has no files.
 */
int mscclpp_plan_library_load(mscclpp_plan_library_t *library, mscclpp_plan_file_t **files_p);

/*
 * Why ranks on such devices cannot use a plan, equal on all of them: a constant text; NULL: they can. The twin carries
 * out switch channels rank by rank. GPUs would need multicast for them, which this component does not use.
 */
const char *mscclpp_plan_library_misfit(const mscclpp_plan_file_t *file, bool on_twin);

/*
 * Proves a plan as far as `prove` says and it is not proven yet, by this process or an earlier one (plan/proofs.h).
 * Sets `refusal` if the proof fails. Thread-safe.
 */
void mscclpp_plan_library_prove(mscclpp_plan_file_t *file, mscclpp_plan_prove_t prove);

#endif
