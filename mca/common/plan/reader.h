/* Shared by the files that read a plan: the state of the reader, and functions that read or refuse a value. */
#ifndef MCA_COMMON_PLAN_READER_H
#define MCA_COMMON_PLAN_READER_H

#include "mca/common/plan/json.h"
#include "mca/common/plan/plan.h"

typedef struct {
    mscclpp_plan_report_t *report;
    mscclpp_plan_arena_t *arena; /* the plan's memory */
    mscclpp_plan_place_t place;  /* the place that is being read, for findings */
    bool no_memory;
} mscclpp_plan_reader_t;

/*
 * Each of these functions returns false, or NULL, after it has refused a value and reported that at the reader's place.
 * If memory runs out, they return false with reader->no_memory set, and report nothing. In both cases the caller must
 * give up the file. `object_name` stands for `object` in messages, such as "a block".
 */

/* Reports that the file breaks `rule`. Always returns false. */
bool mscclpp_plan_refuse(mscclpp_plan_reader_t *reader, const char *rule, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Returns a required member of an object. Refuses the file if it is absent or has another type. */
const mscclpp_json_t *mscclpp_plan_find_required(mscclpp_plan_reader_t *reader, const mscclpp_json_t *object,
                                                 const char *object_name, const char *key, mscclpp_json_type_t type);

/*
 * Returns a member of an object, or NULL if the member is absent or has another type. Sets *is_valid_p to false in the
 * second case, which is reported, and otherwise to true.
 */
const mscclpp_json_t *mscclpp_plan_find_optional(mscclpp_plan_reader_t *reader, const mscclpp_json_t *object,
                                                 const char *key, mscclpp_json_type_t type, bool *is_valid_p);

/*
 * Reads a whole number up to `largest`. If the key is absent, *number_p becomes `fallback`, and the file is refused if
 * the key `is_needed`. If the value is refused, *number_p is unchanged.
 */
bool mscclpp_plan_read_number(mscclpp_plan_reader_t *reader, const mscclpp_json_t *object, const char *object_name,
                              const char *key, uint64_t largest, bool is_needed, uint64_t fallback, uint64_t *number_p);
/* Reads a required number of 32 bits, as mscclpp_plan_read_number does. After a refusal, *number_p is unchanged. */
bool mscclpp_plan_read_number32(mscclpp_plan_reader_t *reader, const mscclpp_json_t *object, const char *object_name,
                                const char *key, uint32_t largest, uint32_t *number_p);

/*
 * Reads one of `words`, a list that ends with NULL, and sets *choice_p to its position. Any other word is refused with
 * the whole list, and *choice_p is then -1. The key is required; if it is absent, *choice_p is unchanged.
 */
bool mscclpp_plan_read_choice(mscclpp_plan_reader_t *reader, const mscclpp_json_t *object, const char *object_name,
                              const char *key, const char *const *words, int *choice_p);

/*
 * Reads an array of at most `max_count` whole numbers up to `largest`, into memory of the plan. If the array is absent
 * and not `is_needed`, it counts as empty. *numbers_p is then NULL and *count_p 0, and also after a failure.
 */
bool mscclpp_plan_read_numbers(mscclpp_plan_reader_t *reader, const mscclpp_json_t *object, const char *object_name,
                               const char *key, uint32_t largest, uint32_t max_count, bool is_needed,
                               uint32_t **numbers_p, uint32_t *count_p);

/*
 * Allocates zeroed memory that lasts as long as the plan, and stores its address in the pointer at `memory_p`. If there
 * is no memory, returns false and sets reader->no_memory; nothing is reported.
 */
bool mscclpp_plan_allocate(mscclpp_plan_reader_t *reader, size_t count, size_t size, void *memory_p);

/*
 * Refuses an object with a key that only other generations of the format have. Other unknown keys are ignored. A value
 * that is no object passes.
 */
bool mscclpp_plan_check_keys(mscclpp_plan_reader_t *reader, const mscclpp_json_t *object);

/*
 * Reads a list of operations: the list of a block or, with `in_pipeline`, the body of a pipeline. The caller has set
 * the reader's place to the block or the pipeline.
 */
bool mscclpp_plan_read_ops(mscclpp_plan_reader_t *reader, const mscclpp_json_t *array, bool in_pipeline,
                           mscclpp_plan_op_t **ops_p, uint32_t *count_p);

#endif
