/*
 * The plans that a process has been given: files and folders, read once and checked. What is refused stays in the list
 * with its reason, so that ranks can compare what each of them has.
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

/* One file. What follows `plan` is only set if `plan` is. */
typedef struct {
    char *path;
    char *refusal; /* why the file is not used: one line; NULL: it is */
    uint64_t digest;
    bool told; /* something was said about it, which is not repeated */

    mscclpp_plan_t *plan;
    bool alone;        /* its collective is none of MPI's: programs run it by its name */
    char *label;       /* "plan:" and the name, without what cannot be printed */
    uint32_t blocks;   /* the most that a rank has */
    uint32_t channels; /* likewise, of memory and port channels together */
    uint32_t chunks;   /* see mscclpp_plan_block_chunks */
    uint32_t unit;     /* chunks are multiples of so many bytes */
    bool crosses;      /* an operation reaches over the end of a rank's block */
    bool shares;       /* peers use the input or the output */
    bool writes_input; /* a plan that is not in place does so */
    bool mixes;        /* the scratch holds packets and other data */
    bool may_order;    /* packets may have to order other stores */
    bool extreme;      /* it serves `reduce` alone, not every operation */
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
 * Does what is still missing of a proof, unless an earlier process has done it (plan/proofs.h). Sets `refusal` if the
 * plan is refused for it. Thread-safe.
 */
void mscclpp_plan_library_prove(mscclpp_plan_file_t *file, mscclpp_plan_prove_t prove);

#endif
