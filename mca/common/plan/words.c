#include "mca/common/plan/words.h"

#include <string.h>

#define WORD(name_, text_) text_,
const char *const mscclpp_plan_op_words[] = {MSCCLPP_PLAN_OPS(WORD) NULL};
#undef WORD
const char *const mscclpp_plan_collective_words[] = {"allreduce", "allgather", "reducescatter", "alltoall",
                                                     "sendrecv",  "test",      "custom",        NULL};
const char *const mscclpp_plan_channel_words[] = {"memory", "port", "switch", "none", NULL};
const char *const mscclpp_plan_buffer_words[] = {"i", "o", "s", NULL};
const char *const mscclpp_plan_reduce_words[] = {"sum", "min", "max", NULL};

const char *mscclpp_plan_op_name(mscclpp_plan_op_kind_t kind)
{
    return mscclpp_plan_op_words[kind];
}

const char *mscclpp_plan_collective_name(mscclpp_plan_collective_t collective)
{
    return mscclpp_plan_collective_words[collective];
}

const char *mscclpp_plan_channel_name(mscclpp_plan_channel_type_t type)
{
    return mscclpp_plan_channel_words[type];
}

const char *mscclpp_plan_buffer_name(mscclpp_plan_buffer_t type)
{
    static const char *const names[] = {"input", "output", "scratch"};

    return names[type];
}

int mscclpp_plan_find_word(const char *const *words, const char *word)
{
    for (int i = 0; words[i] != NULL; ++i) {
        if (strcmp(words[i], word) == 0) {
            return i;
        }
    }
    return -1;
}

/* Short names for the table below, whose columns are the fields of mscclpp_plan_shape_t. */
#define NO MSCCLPP_PLAN_TAKES_NONE
#define LOC MSCCLPP_PLAN_TAKES_LOCAL
#define REM MSCCLPP_PLAN_TAKES_REMOTE
#define ALL MSCCLPP_PLAN_TAKES_MULTICAST
#define PKT MSCCLPP_PLAN_TAKES_PACKETS
#define RPK MSCCLPP_PLAN_TAKES_REMOTE_PACKETS
#define APK MSCCLPP_PLAN_TAKES_MULTICAST_PACKETS
#define ON_ANY                                                                                                         \
    {                                                                                                                  \
        true, true, true, true                                                                                         \
    }
#define ON_MEMORY                                                                                                      \
    {                                                                                                                  \
        true, false, false, false                                                                                      \
    }
#define ON_PORT                                                                                                        \
    {                                                                                                                  \
        false, true, false, false                                                                                      \
    }
#define ON_BOTH                                                                                                        \
    {                                                                                                                  \
        true, true, false, false                                                                                       \
    }
#define ON_SWITCH                                                                                                      \
    {                                                                                                                  \
        false, false, true, true                                                                                       \
    }

/* Over a port, `ppkt` takes packets: the proxy moves them as they are. */
static const mscclpp_plan_shape_t port_ppkt = {PKT, PKT, RPK, RPK, RPK, 1, 0, 1, 0, true, ON_PORT};

/* By operation. Those without an entry have no data. */
static const mscclpp_plan_shape_t shapes[MSCCLPP_PLAN_OP_KINDS] = {
    [MSCCLPP_PLAN_OP_PUT] = {LOC, LOC, REM, REM, REM, 1, 0, 1, 0, true, ON_BOTH},
    [MSCCLPP_PLAN_OP_PWS] = {LOC, LOC, REM, REM, REM, 1, 0, 1, 0, true, ON_PORT},
    [MSCCLPP_PLAN_OP_PWSF] = {LOC, LOC, REM, REM, REM, 1, 0, 1, 0, true, ON_PORT},
    [MSCCLPP_PLAN_OP_GET] = {REM, REM, LOC, LOC, LOC, 1, 0, 1, 0, true, ON_MEMORY},
    [MSCCLPP_PLAN_OP_COPY] = {LOC, NO, LOC, NO, NO, 1, 1, 1, 1, true, ON_ANY},
    [MSCCLPP_PLAN_OP_RE] = {LOC, LOC, LOC, NO, NO, 2, 0, 1, 1, false, ON_ANY},
    [MSCCLPP_PLAN_OP_RES] = {LOC, LOC, LOC, REM, REM, 2, 0, 2, 0, false, ON_MEMORY},
    [MSCCLPP_PLAN_OP_RRE] = {LOC, REM, LOC, NO, NO, 2, 0, 1, 1, false, ON_MEMORY},
    [MSCCLPP_PLAN_OP_RRES] = {LOC, REM, LOC, REM, REM, 2, 0, 2, 0, false, ON_MEMORY},
    [MSCCLPP_PLAN_OP_PPKT] = {LOC, LOC, RPK, RPK, RPK, 1, 0, 1, 0, true, ON_BOTH},
    [MSCCLPP_PLAN_OP_RPPKT] = {PKT, NO, RPK, RPK, RPK, 1, 1, 1, 0, false, ON_BOTH},
    [MSCCLPP_PLAN_OP_CPKT] = {LOC, NO, PKT, NO, NO, 1, 1, 1, 1, true, ON_ANY},
    [MSCCLPP_PLAN_OP_UPKT] = {PKT, NO, LOC, NO, NO, 1, 1, 1, 1, true, ON_ANY},
    [MSCCLPP_PLAN_OP_REPKT] = {LOC, PKT, LOC, NO, NO, 2, 0, 1, 1, false, ON_ANY},
    [MSCCLPP_PLAN_OP_RESPKT] = {LOC, PKT, LOC, RPK, RPK, 2, 0, 2, 0, false, ON_MEMORY},
    [MSCCLPP_PLAN_OP_RECPKT] = {LOC, PKT, LOC, PKT, NO, 2, 0, 2, 2, false, ON_ANY},
    [MSCCLPP_PLAN_OP_RECSPKT] = {LOC, PKT, LOC, PKT, RPK, 2, 0, 3, 0, false, ON_MEMORY},
    [MSCCLPP_PLAN_OP_GLRES] = {ALL, NO, ALL, NO, NO, 1, 1, 1, 1, false, ON_SWITCH},
    [MSCCLPP_PLAN_OP_GSTORE] = {LOC, NO, ALL, NO, NO, 1, 1, 1, 1, false, ON_SWITCH},
    [MSCCLPP_PLAN_OP_GSTOREPKT] = {PKT, NO, APK, NO, NO, 1, 1, 1, 1, false, ON_SWITCH},
};

const mscclpp_plan_shape_t *mscclpp_plan_op_shape(const mscclpp_plan_op_t *op)
{
    if (op->kind == MSCCLPP_PLAN_OP_PPKT && op->channel_type == MSCCLPP_PLAN_PORT) {
        return &port_ppkt;
    }
    return shapes[op->kind].src_min > 0 ? &shapes[op->kind] : NULL;
}

mscclpp_plan_takes_t mscclpp_plan_takes_src(const mscclpp_plan_shape_t *shape, uint32_t i)
{
    return i == 0 ? shape->src0 : shape->srcs;
}

mscclpp_plan_takes_t mscclpp_plan_takes_dst(const mscclpp_plan_shape_t *shape, uint32_t i)
{
    if (i == 0) {
        return shape->dst0;
    }
    return i == 1 ? shape->dst1 : shape->dsts;
}

bool mscclpp_plan_takes_packets(mscclpp_plan_takes_t takes)
{
    return takes == PKT || takes == RPK || takes == APK;
}

bool mscclpp_plan_puts_over_ports(const mscclpp_plan_op_t *op)
{
    return op->channel_type == MSCCLPP_PLAN_PORT && op->dst_count > 0 && op->dst[0].where == MSCCLPP_PLAN_REMOTE;
}
