/* The closed sets of words in a plan's file, and the operands of each operation. */
#ifndef MCA_COMMON_PLAN_WORDS_H
#define MCA_COMMON_PLAN_WORDS_H

#include "mca/common/plan/plan.h"

/* The words by which files name these values. They are constant. */
const char *mscclpp_plan_op_name(mscclpp_plan_op_kind_t kind);
const char *mscclpp_plan_collective_name(mscclpp_plan_collective_t collective);
const char *mscclpp_plan_channel_name(mscclpp_plan_channel_type_t type);
/* A buffer's name for messages: "input", "output", "scratch". Files have a letter instead. */
const char *mscclpp_plan_buffer_name(mscclpp_plan_buffer_t type);

/* Returns the position of a word in a list that ends with NULL; -1: it is not there. */
int mscclpp_plan_find_word(const char *const *words, const char *word);

/* The closed sets, each ended by NULL. A word's position is its value in the enumeration of plan.h. */
extern const char *const mscclpp_plan_op_words[];
extern const char *const mscclpp_plan_collective_words[];
extern const char *const mscclpp_plan_channel_words[]; /* memory, port, switch, none */
extern const char *const mscclpp_plan_buffer_words[];  /* i, o, s */
extern const char *const mscclpp_plan_reduce_words[];

/* What one entry of src_buff or dst_buff must be. */
typedef enum {
    MSCCLPP_PLAN_TAKES_NONE,             /* there is no such entry */
    MSCCLPP_PLAN_TAKES_LOCAL,            /* a buffer of this rank */
    MSCCLPP_PLAN_TAKES_REMOTE,           /* a buffer of a peer */
    MSCCLPP_PLAN_TAKES_MULTICAST,        /* a switch channel: a buffer of all its ranks */
    MSCCLPP_PLAN_TAKES_PACKETS,          /* in this rank's scratch */
    MSCCLPP_PLAN_TAKES_REMOTE_PACKETS,   /* in a peer's scratch */
    MSCCLPP_PLAN_TAKES_MULTICAST_PACKETS /* in the scratch of all ranks of a switch channel */
} mscclpp_plan_takes_t;

/* The sources and targets that an operation takes. */
typedef struct {
    mscclpp_plan_takes_t src0, srcs;         /* the first source; each of the others */
    mscclpp_plan_takes_t dst0, dst1, dsts;   /* the first two targets; each of the others */
    uint32_t src_min, src_max;               /* number of sources; src_max 0: no limit */
    uint32_t dst_min, dst_max;               /* number of targets; dst_max 0: no limit */
    bool paired;                             /* source i goes to target i; false: all sources to all targets */
    bool on[MSCCLPP_PLAN_CHANNEL_TYPES + 1]; /* by channel type, "none" included: it can be done over such channels */
} mscclpp_plan_shape_t;

/* Returns what an operation takes; NULL for operations without data. The shape is constant. */
const mscclpp_plan_shape_t *mscclpp_plan_op_shape(const mscclpp_plan_op_t *op);

/* What source i, or target i, of such an operation must be. */
mscclpp_plan_takes_t mscclpp_plan_takes_src(const mscclpp_plan_shape_t *shape, uint32_t i);
mscclpp_plan_takes_t mscclpp_plan_takes_dst(const mscclpp_plan_shape_t *shape, uint32_t i);
bool mscclpp_plan_takes_packets(mscclpp_plan_takes_t takes);

#endif
