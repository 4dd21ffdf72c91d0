/* The closed sets of words in a plan's file, and the operands of each operation. */
#ifndef MCA_COMMON_PLAN_WORDS_H
#define MCA_COMMON_PLAN_WORDS_H

#include "mca/common/plan/plan.h"

const char *mscclpp_plan_op_name(mscclpp_plan_op_kind_t kind);
const char *mscclpp_plan_collective_name(mscclpp_plan_collective_t collective);
const char *mscclpp_plan_channel_name(mscclpp_plan_channel_type_t type);
const char *mscclpp_plan_buffer_name(mscclpp_plan_buffer_t type); /* "input", "output", "scratch" */

/* Position of a word in a list that ends with NULL, or -1. */
int mscclpp_plan_word(const char *const *words, const char *word);

extern const char *const mscclpp_plan_op_words[];
extern const char *const mscclpp_plan_collective_words[];
extern const char *const mscclpp_plan_channel_words[]; /* memory, port, switch, none */
extern const char *const mscclpp_plan_buffer_words[];  /* i, o, s */
extern const char *const mscclpp_plan_reduce_words[];

/* What one entry of src_buff or dst_buff must be. */
typedef enum {
    MSCCLPP_PLAN_TAKES_NONE,
    MSCCLPP_PLAN_TAKES_LOCAL,
    MSCCLPP_PLAN_TAKES_REMOTE,
    MSCCLPP_PLAN_TAKES_MULTICAST,
    MSCCLPP_PLAN_TAKES_PACKETS,          /* in this rank's scratch */
    MSCCLPP_PLAN_TAKES_REMOTE_PACKETS,   /* in a peer's scratch */
    MSCCLPP_PLAN_TAKES_MULTICAST_PACKETS /* in the scratch of all ranks */
} mscclpp_plan_takes_t;

/*
 * The entries src[0], src[1..], dst[0], dst[1], dst[2..], and the least and most entries of each list; a most of 0
 * means no limit.
 */
typedef struct {
    mscclpp_plan_takes_t src0, srcs, dst0, dst1, dsts;
    uint32_t src_least, src_most, dst_least, dst_most;
    bool paired; /* src[i] goes with dst[i] */
    bool on[MSCCLPP_PLAN_CHANNEL_TYPES + 1];
} mscclpp_plan_shape_t;

/* NULL for operations without data. */
const mscclpp_plan_shape_t *mscclpp_plan_op_shape(const mscclpp_plan_op_t *op);

mscclpp_plan_takes_t mscclpp_plan_takes_src(const mscclpp_plan_shape_t *shape, uint32_t i);
mscclpp_plan_takes_t mscclpp_plan_takes_dst(const mscclpp_plan_shape_t *shape, uint32_t i);
bool mscclpp_plan_takes_packets(mscclpp_plan_takes_t takes);

#endif
