/* What the files that read a plan share: where they are in it, and how a value is taken or refused. */
#ifndef MCA_COMMON_PLAN_READER_H
#define MCA_COMMON_PLAN_READER_H

#include "mca/common/plan/json.h"
#include "mca/common/plan/plan.h"

typedef struct {
    mscclpp_plan_report_t *report;
    mscclpp_plan_arena_t *arena;
    mscclpp_plan_place_t place;
    bool no_memory;
} mscclpp_plan_reader_t;

/* Each returns false, or NULL, after a refusal, which it has reported. */

bool mscclpp_plan_bad(mscclpp_plan_reader_t *reader, const char *rule, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A member that has to be there and of that type. `what` is the object's name for messages. */
const mscclpp_json_t *mscclpp_plan_need(mscclpp_plan_reader_t *reader, const mscclpp_json_t *object, const char *what,
                                        const char *key, mscclpp_json_type_t type);

/* NULL without a refusal where it is absent; `*ok_p` says which. */
const mscclpp_json_t *mscclpp_plan_may(mscclpp_plan_reader_t *reader, const mscclpp_json_t *object, const char *key,
                                       mscclpp_json_type_t type, bool *ok_p);

/* A number up to `most`; `fallback` where the key is absent, unless `needed`. */
bool mscclpp_plan_number(mscclpp_plan_reader_t *reader, const mscclpp_json_t *object, const char *what, const char *key,
                         uint64_t most, bool needed, uint64_t fallback, uint64_t *number_p);
bool mscclpp_plan_number32(mscclpp_plan_reader_t *reader, const mscclpp_json_t *object, const char *what,
                           const char *key, uint32_t most, uint32_t *number_p);

/* One word of a closed set. */
bool mscclpp_plan_choice(mscclpp_plan_reader_t *reader, const mscclpp_json_t *object, const char *what, const char *key,
                         const char *const *words, int *choice_p);

/* An array of numbers up to `most`, at most `items` of them; absent: none, unless `needed`. */
bool mscclpp_plan_numbers(mscclpp_plan_reader_t *reader, const mscclpp_json_t *object, const char *what,
                          const char *key, uint32_t most, uint32_t items, bool needed, uint32_t **numbers_p,
                          uint32_t *count_p);

/* From the arena; false, remembered in the reader, if there is no memory. */
bool mscclpp_plan_room(mscclpp_plan_reader_t *reader, size_t count, size_t size, void *memory_p);

/* Keys that only other generations of the format have are refused by name. */
bool mscclpp_plan_no_stranger(mscclpp_plan_reader_t *reader, const mscclpp_json_t *object);

/* The operations of a block, or of the body of a pipeline. The reader's place is the block's. */
bool mscclpp_plan_read_ops(mscclpp_plan_reader_t *reader, const mscclpp_json_t *array, bool inside,
                           mscclpp_plan_op_t **ops_p, uint32_t *count_p);

#endif
