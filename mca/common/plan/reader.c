#include "mca/common/plan/reader.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/plan/words.h"

bool mscclpp_plan_refuse(mscclpp_plan_reader_t *reader, const char *rule, const char *format, ...)
{
    char text[400];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    mscclpp_plan_add_finding(reader->report, MSCCLPP_PLAN_INVALID, rule, reader->place, "%s", text);
    return false;
}

bool mscclpp_plan_allocate(mscclpp_plan_reader_t *reader, size_t count, size_t size, void *memory_p)
{
    void *memory = mscclpp_plan_arena_get(reader->arena, count, size);

    if (memory == NULL) {
        reader->no_memory = true;
        return false;
    }
    memcpy(memory_p, &memory, sizeof(memory));
    return true;
}

/* Refuses a value that has another type than `type`. Always returns false. */
static bool refuse_type(mscclpp_plan_reader_t *reader, const char *key, const mscclpp_json_t *value,
                        mscclpp_json_type_t type)
{
    return mscclpp_plan_refuse(reader, "type", "\"%s\" is %s and has to be %s", key,
                               mscclpp_json_type_name(value->type), mscclpp_json_type_name(type));
}

const mscclpp_json_t *mscclpp_plan_find_required(mscclpp_plan_reader_t *reader, const mscclpp_json_t *object,
                                                 const char *object_name, const char *key, mscclpp_json_type_t type)
{
    bool is_valid = true;
    const mscclpp_json_t *value = mscclpp_plan_find_optional(reader, object, key, type, &is_valid);

    if (is_valid && value == NULL) {
        mscclpp_plan_refuse(reader, "key", "%s has no \"%s\"", object_name, key);
    }
    return value;
}

const mscclpp_json_t *mscclpp_plan_find_optional(mscclpp_plan_reader_t *reader, const mscclpp_json_t *object,
                                                 const char *key, mscclpp_json_type_t type, bool *is_valid_p)
{
    const mscclpp_json_t *value = mscclpp_json_get(object, key);

    *is_valid_p = value == NULL || value->type == type;
    if (!*is_valid_p) {
        refuse_type(reader, key, value, type);
        return NULL;
    }
    return value;
}

/* A number that is negative, fractional or too large for 64 bits was stored as text only, which the refusal shows. */
bool mscclpp_plan_read_number(mscclpp_plan_reader_t *reader, const mscclpp_json_t *object, const char *object_name,
                              const char *key, uint64_t largest, bool is_needed, uint64_t fallback, uint64_t *number_p)
{
    const mscclpp_json_t *value = mscclpp_json_get(object, key);

    if (value == NULL) {
        *number_p = fallback;
        return !is_needed || mscclpp_plan_refuse(reader, "key", "%s has no \"%s\"", object_name, key);
    }
    if (value->type == MSCCLPP_JSON_NUMBER) {
        return mscclpp_plan_refuse(reader, "number", "\"%s\" is %.40s; allowed are whole numbers from 0 to %llu", key,
                                   value->text, (unsigned long long)largest);
    }
    if (value->type != MSCCLPP_JSON_UNSIGNED) {
        return refuse_type(reader, key, value, MSCCLPP_JSON_UNSIGNED);
    }
    if (value->number > largest) {
        return mscclpp_plan_refuse(reader, "number", "\"%s\" is %llu; the most is %llu", key,
                                   (unsigned long long)value->number, (unsigned long long)largest);
    }
    *number_p = value->number;
    return true;
}

bool mscclpp_plan_read_number32(mscclpp_plan_reader_t *reader, const mscclpp_json_t *object, const char *object_name,
                                const char *key, uint32_t largest, uint32_t *number_p)
{
    uint64_t number = 0;

    if (!mscclpp_plan_read_number(reader, object, object_name, key, largest, true, 0, &number)) {
        return false;
    }
    *number_p = (uint32_t)number;
    return true;
}

bool mscclpp_plan_read_choice(mscclpp_plan_reader_t *reader, const mscclpp_json_t *object, const char *object_name,
                              const char *key, const char *const *words, int *choice_p)
{
    const mscclpp_json_t *value = mscclpp_plan_find_required(reader, object, object_name, key, MSCCLPP_JSON_STRING);
    char allowed[300] = "";
    size_t used = 0;

    if (value == NULL) {
        return false;
    }
    *choice_p = mscclpp_plan_find_word(words, value->text);
    if (*choice_p >= 0) {
        return true;
    }
    for (int i = 0; words[i] != NULL && used < sizeof(allowed); ++i) {
        used += (size_t)snprintf(allowed + used, sizeof(allowed) - used, "%s%s", i > 0 ? " " : "", words[i]);
    }
    return mscclpp_plan_refuse(reader, "word", "\"%s\" is \"%.40s\"; allowed are: %s", key, value->text, allowed);
}

bool mscclpp_plan_read_numbers(mscclpp_plan_reader_t *reader, const mscclpp_json_t *object, const char *object_name,
                               const char *key, uint32_t largest, uint32_t max_count, bool is_needed,
                               uint32_t **numbers_p, uint32_t *count_p)
{
    bool is_valid = true;
    const mscclpp_json_t *array = is_needed
                                      ? mscclpp_plan_find_required(reader, object, object_name, key, MSCCLPP_JSON_ARRAY)
                                      : mscclpp_plan_find_optional(reader, object, key, MSCCLPP_JSON_ARRAY, &is_valid);
    uint32_t *numbers, count = 0;

    *numbers_p = NULL;
    *count_p = 0;
    if (array == NULL) {
        return !is_needed && is_valid;
    }
    if (array->count > max_count) {
        return mscclpp_plan_refuse(reader, "limit", "\"%s\" has %u entries; the most is %u", key, array->count,
                                   max_count);
    }
    if (!mscclpp_plan_allocate(reader, array->count, sizeof(*numbers), &numbers)) {
        return false;
    }
    for (const mscclpp_json_t *value = array->first; value != NULL; value = value->next) {
        if (value->type != MSCCLPP_JSON_UNSIGNED || value->number > largest) {
            if (value->type == MSCCLPP_JSON_UNSIGNED || value->type == MSCCLPP_JSON_NUMBER) {
                return mscclpp_plan_refuse(reader, "number", "\"%s\" holds a number outside of 0 to %u", key, largest);
            }
            return mscclpp_plan_refuse(reader, "type", "\"%s\" holds %s; allowed are whole numbers", key,
                                       mscclpp_json_type_name(value->type));
        }
        numbers[count++] = (uint32_t)value->number;
    }
    *numbers_p = numbers;
    *count_p = count;
    return true;
}

/* The keys below would change the meaning of the plan. Reports the first of them. */
bool mscclpp_plan_check_keys(mscclpp_plan_reader_t *reader, const mscclpp_json_t *object)
{
    static const char *const generation_1[] = {"inputChunks", "outputChunks", "scratchChunks", "chunkGroups", "i_cids",
                                               "o_cids",      "ctype",        "cnt",           "deps",        NULL};
    static const char *const unmerged[] = {"dynamic_index", "dynamic_size", "dynamic_tbgroup_id", NULL};

    if (object->type != MSCCLPP_JSON_OBJECT) {
        return true;
    }
    for (const mscclpp_json_t *member = object->first; member != NULL; member = member->next) {
        if (mscclpp_plan_find_word(generation_1, member->key) >= 0) {
            return mscclpp_plan_refuse(reader, "generation",
                                       "the key \"%s\" is of generation 1 of the format; write the plan anew with the "
                                       "language of July 2025 or later",
                                       member->key);
        }
        if (mscclpp_plan_find_word(unmerged, member->key) >= 0) {
            return mscclpp_plan_refuse(reader, "unmerged",
                                       "the key \"%s\" belongs to sizes that are known only at run time, which no "
                                       "released format has",
                                       member->key);
        }
    }
    return true;
}
