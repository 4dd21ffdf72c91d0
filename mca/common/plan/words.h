/* The closed sets of words in a plan's file, and the operands of each operation. */
#ifndef MCA_COMMON_PLAN_WORDS_H
#define MCA_COMMON_PLAN_WORDS_H

#include "mca/common/plan/plan.h"

/* These functions return the word for a value in files. The words are constant. */
const char *mscclpp_plan_op_name(mscclpp_plan_op_kind_t kind);
const char *mscclpp_plan_collective_name(mscclpp_plan_collective_t collective);
const char *mscclpp_plan_channel_name(mscclpp_plan_channel_type_t type);
/* Returns a buffer's name for messages: "input", "output", "scratch". Files have a letter instead. */
const char *mscclpp_plan_buffer_name(mscclpp_plan_buffer_t type);

/* Returns the position of a word in a list that ends with NULL, or -1 if the word is not in the list. */
int mscclpp_plan_find_word(const char *const *words, const char *word);

/* The closed sets, each ended by NULL. A word's position is its value in the enumeration of plan.h. */
extern const char *const mscclpp_plan_op_words[];
extern const char *const mscclpp_plan_collective_words[];
extern const char *const mscclpp_plan_channel_words[]; /* memory, port, switch, none */
extern const char *const mscclpp_plan_buffer_words[];  /* i, o, s */
extern const char *const mscclpp_plan_reduce_words[];

/* The required kind of one entry of src_buff or dst_buff. */
typedef enum {
    MSCCLPP_PLAN_TAKES_NONE,             /* there is no such entry */
    MSCCLPP_PLAN_TAKES_LOCAL,            /* a buffer of this rank */
    MSCCLPP_PLAN_TAKES_REMOTE,           /* a buffer of a peer */
    MSCCLPP_PLAN_TAKES_MULTICAST,        /* a switch channel: a buffer of all its ranks */
    MSCCLPP_PLAN_TAKES_PACKETS,          /* packets in this rank's scratch */
    MSCCLPP_PLAN_TAKES_REMOTE_PACKETS,   /* packets in a peer's scratch */
    MSCCLPP_PLAN_TAKES_MULTICAST_PACKETS /* packets in the scratch of all ranks of a switch channel */
} mscclpp_plan_takes_t;

/* The sources and targets that an operation takes. An operation with a shape has at least one of each. */
typedef struct {
    mscclpp_plan_takes_t src0, srcs;         /* the first source; each other source */
    mscclpp_plan_takes_t dst0, dst1, dsts;   /* the first two targets; each other target */
    uint32_t src_min, src_max;               /* number of sources; src_max is src_min, or 0: no limit */
    uint32_t dst_min, dst_max;               /* number of targets; dst_max is dst_min, or 0: no limit */
    bool paired;                             /* source i is for target i; false: all sources are for all targets */
    bool on[MSCCLPP_PLAN_CHANNEL_TYPES + 1]; /* by channel type, including "none": such channels can be used */
} mscclpp_plan_shape_t;

/*
 * Returns the sources and targets that an operation takes, or NULL for operations without data. The shape is constant.
 */
const mscclpp_plan_shape_t *mscclpp_plan_op_shape(const mscclpp_plan_op_t *op);

/*
 * These functions return the required kind of source i, or target i, of an operation of this shape.
 * mscclpp_plan_takes_packets returns true if the kind is packets, of whichever owner.
 */
mscclpp_plan_takes_t mscclpp_plan_takes_src(const mscclpp_plan_shape_t *shape, uint32_t i);
mscclpp_plan_takes_t mscclpp_plan_takes_dst(const mscclpp_plan_shape_t *shape, uint32_t i);
bool mscclpp_plan_takes_packets(mscclpp_plan_takes_t takes);

/*
 * Returns true if a checked operation puts data to peers over ports, so that a proxy moves the data. The first target
 * tells: an operation that puts over ports has targets of peers only.
 */
bool mscclpp_plan_puts_over_ports(const mscclpp_plan_op_t *op);

#endif
