/* Reads the operations of a plan's file. */
#include <string.h>

#include "mca/common/plan/reader.h"
#include "mca/common/plan/words.h"

/* As in read.c, a function that returns false has refused the file or has run out of memory (reader.h). */

/* Reads one source or target. `list` is the name of the list for messages. */
static bool read_item(mscclpp_plan_reader_t *reader, const char *list, const mscclpp_json_t *value,
                      mscclpp_plan_item_t *item)
{
    const mscclpp_json_t *remote, *multicast;
    int type = 0;

    if (value->type != MSCCLPP_JSON_OBJECT) {
        return mscclpp_plan_refuse(reader, "type", "\"%s\" holds %s; allowed are objects", list,
                                   mscclpp_json_type_name(value->type));
    }
    if (!mscclpp_plan_check_keys(reader, value)) {
        return false;
    }
    remote = mscclpp_json_get(value, "buffer_id");
    multicast = mscclpp_json_get(value, "switch_channel_id");
    if (remote != NULL && multicast != NULL) {
        return mscclpp_plan_refuse(reader, "buffer", "an entry of \"%s\" has \"buffer_id\" and \"switch_channel_id\"",
                                   list);
    }
    if (remote != NULL || multicast != NULL) {
        item->where = remote != NULL ? MSCCLPP_PLAN_REMOTE : MSCCLPP_PLAN_MULTICAST;
        if (!mscclpp_plan_read_number32(reader, value, list, remote != NULL ? "buffer_id" : "switch_channel_id",
                                        MSCCLPP_PLAN_MAX_TABLE, &item->id)) {
            return false;
        }
    } else {
        if (!mscclpp_plan_read_choice(reader, value, list, "type", mscclpp_plan_buffer_words, &type)) {
            return false;
        }
        item->type = (mscclpp_plan_buffer_t)type;
    }
    return mscclpp_plan_read_number32(reader, value, list, "index", MSCCLPP_PLAN_MAX_CHUNKS, &item->index) &&
           mscclpp_plan_read_number32(reader, value, list, "size", MSCCLPP_PLAN_MAX_CHUNKS, &item->size);
}

/* Reads a list of sources or targets. A missing list counts as empty. */
static bool read_items(mscclpp_plan_reader_t *reader, const mscclpp_json_t *object, const char *key,
                       mscclpp_plan_item_t **items_p, uint32_t *count_p)
{
    bool is_valid = true;
    const mscclpp_json_t *array = mscclpp_plan_find_optional(reader, object, key, MSCCLPP_JSON_ARRAY, &is_valid);
    mscclpp_plan_item_t *items;
    uint32_t count = 0;

    if (array == NULL) {
        return is_valid;
    }
    if (array->count > MSCCLPP_PLAN_MAX_ITEMS) {
        return mscclpp_plan_refuse(reader, "limit", "\"%s\" has %u entries; the most is %d", key, array->count,
                                   MSCCLPP_PLAN_MAX_ITEMS);
    }
    if (!mscclpp_plan_allocate(reader, array->count, sizeof(*items), &items)) {
        return false;
    }
    for (const mscclpp_json_t *value = array->first; value != NULL; value = value->next) {
        if (!read_item(reader, key, value, &items[count++])) {
            return false;
        }
    }
    *items_p = items;
    *count_p = count;
    return true;
}

/*
 * Reads which part of a shared operation the block does. Without "tbg_info", the block does the whole operation, and
 * tbg_size stays 0. Otherwise tb_id is checked to be less than tbg_size, because later code uses it as an index.
 */
static bool read_part(mscclpp_plan_reader_t *reader, const mscclpp_json_t *object, mscclpp_plan_op_t *op)
{
    bool is_valid = true;
    const mscclpp_json_t *group =
        mscclpp_plan_find_optional(reader, object, "tbg_info", MSCCLPP_JSON_OBJECT, &is_valid);

    if (group == NULL) {
        return is_valid;
    }
    if (!mscclpp_plan_read_number32(reader, group, "tbg_info", "tb_id", MSCCLPP_PLAN_MAX_BLOCKS, &op->tb_id) ||
        !mscclpp_plan_read_number32(reader, group, "tbg_info", "tbg_size", MSCCLPP_PLAN_MAX_BLOCKS, &op->tbg_size)) {
        return false;
    }
    if (op->tb_id >= op->tbg_size) {
        return mscclpp_plan_refuse(reader, "group", "tb_id is %u, but the group has %u blocks", op->tb_id,
                                   op->tbg_size);
    }
    return true;
}

/*
 * Reads how a pipeline takes turns, and the operations in it. Refuses a pipeline within a pipeline. So the recursion of
 * read_op has at most two levels.
 */
static bool read_pipeline(mscclpp_plan_reader_t *reader, const mscclpp_json_t *object, bool in_pipeline,
                          mscclpp_plan_op_t *op)
{
    const mscclpp_json_t *turns, *body;

    if (in_pipeline) {
        return mscclpp_plan_refuse(reader, "pipeline", "a pipeline within a pipeline");
    }
    turns = mscclpp_plan_find_required(reader, object, "a pipeline", "iter_context", MSCCLPP_JSON_OBJECT);
    body = turns != NULL ? mscclpp_plan_find_required(reader, object, "a pipeline", "ops", MSCCLPP_JSON_ARRAY) : NULL;
    if (body == NULL ||
        !mscclpp_plan_read_number(reader, turns, "iter_context", "unit_size", MSCCLPP_PLAN_MAX_UNIT, true, 0,
                                  &op->unit) ||
        !mscclpp_plan_read_number32(reader, turns, "iter_context", "num_chunks", MSCCLPP_PLAN_MAX_CHUNKS,
                                    &op->num_chunks)) {
        return false;
    }
    return mscclpp_plan_read_ops(reader, body, true, &op->body, &op->body_count);
}

/*
 * Reads a word that an operation may have under `key`, and sets *choice_p to its position in `words`. If the key is
 * absent, sets *choice_p to `fallback`.
 */
static bool read_optional_choice(mscclpp_plan_reader_t *reader, const mscclpp_json_t *object, const char *key,
                                 const char *const *words, int fallback, int *choice_p)
{
    *choice_p = fallback;
    return mscclpp_json_get(object, key) == NULL ||
           mscclpp_plan_read_choice(reader, object, "an operation", key, words, choice_p);
}

/* Reads the lists of an operation. All of them are optional here; mscclpp_plan_check_ops refuses what a kind lacks. */
static bool read_lists(mscclpp_plan_reader_t *reader, const mscclpp_json_t *object, mscclpp_plan_op_t *op)
{
    return mscclpp_plan_read_numbers(reader, object, "an operation", "channel_ids", MSCCLPP_PLAN_MAX_TABLE,
                                     MSCCLPP_PLAN_MAX_ITEMS, false, &op->channel_ids, &op->channel_count) &&
           mscclpp_plan_read_numbers(reader, object, "an operation", "semaphore_ids", MSCCLPP_PLAN_MAX_TABLE,
                                     MSCCLPP_PLAN_MAX_ITEMS, false, &op->semaphores, &op->semaphore_count) &&
           read_items(reader, object, "src_buff", &op->src, &op->src_count) &&
           read_items(reader, object, "dst_buff", &op->dst, &op->dst_count);
}

/*
 * Reads one operation. Also reads keys that the operation's kind does not use; they are ignored later. Until the kind
 * is known, findings use the operation's name from the file. Returns false after a fault, which is in the report, or if
 * there is no memory.
 */
static bool read_op(mscclpp_plan_reader_t *reader, const mscclpp_json_t *object, bool in_pipeline,
                    mscclpp_plan_op_t *op)
{
    const mscclpp_json_t *name;
    int choice = 0;

    if (object->type != MSCCLPP_JSON_OBJECT) {
        return mscclpp_plan_refuse(reader, "type", "an operation is %s and has to be an object",
                                   mscclpp_json_type_name(object->type));
    }
    name = mscclpp_json_get(object, "name");
    reader->place.name = name != NULL && name->type == MSCCLPP_JSON_STRING ? name->text : NULL;
    if (!mscclpp_plan_check_keys(reader, object) ||
        !mscclpp_plan_read_choice(reader, object, "an operation", "name", mscclpp_plan_op_words, &choice)) {
        return false;
    }
    op->kind = (mscclpp_plan_op_kind_t)choice;
    reader->place.name = mscclpp_plan_op_name(op->kind);
    if (!read_optional_choice(reader, object, "channel_type", mscclpp_plan_channel_words, MSCCLPP_PLAN_NO_CHANNEL,
                              &choice)) {
        return false;
    }
    op->channel_type = (mscclpp_plan_channel_type_t)choice;
    if (!read_optional_choice(reader, object, "reduce_op", mscclpp_plan_reduce_words, MSCCLPP_PLAN_SUM, &choice)) {
        return false;
    }
    op->reduce = (mscclpp_plan_reduce_t)choice;
    if (!read_lists(reader, object, op) || !read_part(reader, object, op)) {
        return false;
    }
    if (op->kind == MSCCLPP_PLAN_OP_BARRIER) {
        return mscclpp_plan_read_number32(reader, object, "a barrier", "barrier_id", MSCCLPP_PLAN_MAX_TABLE,
                                          &op->barrier) &&
               mscclpp_plan_read_number32(reader, object, "a barrier", "num_threadblocks", MSCCLPP_PLAN_MAX_BLOCKS,
                                          &op->barrier_blocks);
    }
    return op->kind != MSCCLPP_PLAN_OP_PIPELINE || read_pipeline(reader, object, in_pipeline, op);
}

/*
 * Makes each operation in turn the reader's place. After a failure, the place stays at the faulty operation, so that
 * messages name it.
 */
bool mscclpp_plan_read_ops(mscclpp_plan_reader_t *reader, const mscclpp_json_t *array, bool in_pipeline,
                           mscclpp_plan_op_t **ops_p, uint32_t *count_p)
{
    mscclpp_plan_place_t place = reader->place;
    mscclpp_plan_op_t *ops;
    uint32_t count = 0;

    if (array->count > MSCCLPP_PLAN_MAX_OPS) {
        return mscclpp_plan_refuse(reader, "limit", "%u operations; the most is %d", array->count,
                                   MSCCLPP_PLAN_MAX_OPS);
    }
    if (!mscclpp_plan_allocate(reader, array->count, sizeof(*ops), &ops)) {
        return false;
    }
    for (const mscclpp_json_t *value = array->first; value != NULL; value = value->next, ++count) {
        reader->place = place;
        if (in_pipeline) {
            reader->place.inner = (int)count;
        } else {
            reader->place.op = (int)count;
        }
        reader->place.name = NULL;
        if (!read_op(reader, value, in_pipeline, &ops[count])) {
            return false;
        }
    }
    reader->place = place;
    *ops_p = ops;
    *count_p = count;
    return true;
}
