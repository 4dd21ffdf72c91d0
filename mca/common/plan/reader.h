/* Shared by the files that read a plan: the place in the plan, and taking or refusing a value. */
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

/* Each function returns false, or NULL, after it has refused a value and reported that. */

bool mscclpp_plan_bad(mscclpp_plan_reader_t *reader, const char *rule, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Finds a required member of the given type. `what` is the object's name for messages. */
const mscclpp_json_t *mscclpp_plan_need(mscclpp_plan_reader_t *reader, const mscclpp_json_t *object, const char *what,
                                        const char *key, mscclpp_json_type_t type);

/* Finds an optional member: NULL, with *ok_p true, if it is absent. */
const mscclpp_json_t *mscclpp_plan_may(mscclpp_plan_reader_t *reader, const mscclpp_json_t *object, const char *key,
                                       mscclpp_json_type_t type, bool *ok_p);

/* Reads a number up to `most`; `fallback` if the key is absent and not `needed`. */
bool mscclpp_plan_number(mscclpp_plan_reader_t *reader, const mscclpp_json_t *object, const char *what, const char *key,
                         uint64_t most, bool needed, uint64_t fallback, uint64_t *number_p);
bool mscclpp_plan_number32(mscclpp_plan_reader_t *reader, const mscclpp_json_t *object, const char *what,
                           const char *key, uint32_t most, uint32_t *number_p);

/* Reads one word of a closed set. */
bool mscclpp_plan_choice(mscclpp_plan_reader_t *reader, const mscclpp_json_t *object, const char *what, const char *key,
                         const char *const *words, int *choice_p);

/* Reads an array of at most `items` numbers up to `most`; an absent array is empty unless `needed`. */
bool mscclpp_plan_numbers(mscclpp_plan_reader_t *reader, const mscclpp_json_t *object, const char *what,
                          const char *key, uint32_t most, uint32_t items, bool needed, uint32_t **numbers_p,
                          uint32_t *count_p);

/* Allocates from the arena. Without memory returns false and notes that in the reader. */
bool mscclpp_plan_allocate(mscclpp_plan_reader_t *reader, size_t count, size_t size, void *memory_p);

/* Refuses, by name, keys that only other generations of the format have. */
bool mscclpp_plan_no_stranger(mscclpp_plan_reader_t *reader, const mscclpp_json_t *object);

/* Reads the operations of a block, or of a pipeline's body. The reader's place is the block's. */
bool mscclpp_plan_read_ops(mscclpp_plan_reader_t *reader, const mscclpp_json_t *array, bool inside,
                           mscclpp_plan_op_t **ops_p, uint32_t *count_p);

#endif
