/* Finds out whether a lowered plan works in place: with input and output in one buffer. */
#include "mca/common/plan/in_place.h"

#include <stdlib.h>

#include "mca/common/plan/range.h"

/* mscclpp_plan_works_in_place returns false for plans with more chunks of input or output than this. */
#define CHUNKS_MAX 65536

/*
 * How a rank's steps use one chunk of the buffer that a call in place has. Uses by peers do not count. Steps are
 * numbered through all blocks.
 */
typedef struct {
    uint32_t block, step;       /* of the first use, with its number plus 1; 0: no step uses the chunk */
    mscclpp_plan_range_t range; /* of the first use */
    uint32_t last_read;         /* number of the last step that reads it as input, plus 1 */
    uint32_t first_write;       /* number of the first step that writes it as output, plus 1; 0: none */
    bool is_shared;             /* perhaps not always the same thread uses the same bytes */
} chunk_use_t;

typedef struct {
    const mscclpp_plan_t *plan;
    const mscclpp_plan_program_t *program;
    uint32_t rank, block_chunks;
    chunk_use_t *uses; /* by chunk */
    uint64_t count;    /* chunks */
} alias_t;

/*
 * Notes how a step uses one item. Considers only reads of the rank's own input and writes to its own output, because
 * only a read of the input can find data that the output has overwritten. A port's source counts as shared, because the
 * proxy reads it at any time.
 */
static void note_use(alias_t *alias, uint32_t block, uint32_t step_number, const mscclpp_dev_plan_item_t *item,
                     bool is_write)
{
    const mscclpp_dev_plan_step_t *step = &alias->program->steps[step_number];
    const mscclpp_plan_range_t range =
        mscclpp_plan_find_range(alias->plan, alias->block_chunks, true, item, step->size);

    if (item->base !=
        MSCCLPP_DEV_PLAN_BUFFERS * alias->rank + (is_write ? MSCCLPP_DEV_PLAN_OUTPUT : MSCCLPP_DEV_PLAN_INPUT)) {
        return;
    }
    for (uint64_t chunk = range.first; chunk < range.first + range.count && chunk < alias->count; ++chunk) {
        chunk_use_t *use = &alias->uses[chunk];

        if (use->step == 0) {
            use->step = step_number + 1;
            use->block = block;
            use->range = range;
        }
        use->is_shared = use->is_shared || use->block != block || !mscclpp_plan_ranges_are_equal(use->range, range) ||
                         !mscclpp_plan_divide_alike(&alias->program->steps[use->step - 1], step) ||
                         step->code != MSCCLPP_DEV_PLAN_DATA;
        if (!is_write) {
            use->last_read = step_number + 1;
        } else if (use->first_write == 0) {
            use->first_write = step_number + 1;
        }
    }
}

/*
 * Notes how a step uses each of its items. In each turn of a loop, a thread has other parts than outside of the loop.
 * So in a loop all chunks with the numbers of the step's items count as shared, even if an item is in another buffer.
 * The result can only become false by this, which is safe.
 */
static void note_step(alias_t *alias, uint32_t block, uint32_t step_number, bool in_loop)
{
    const mscclpp_dev_plan_step_t *step = &alias->program->steps[step_number];
    const mscclpp_dev_plan_item_t *items = &alias->program->items[alias->program->starts[block].item + step->items];
    const uint32_t count = step->code == MSCCLPP_DEV_PLAN_DATA       ? step->sources + step->targets
                           : step->code == MSCCLPP_DEV_PLAN_PORT_PUT ? 2 * step->count
                                                                     : 0;

    for (uint32_t i = 0; i < count; ++i) {
        const bool is_write = step->code == MSCCLPP_DEV_PLAN_DATA && i >= step->sources;
        const mscclpp_plan_range_t range =
            mscclpp_plan_find_range(alias->plan, alias->block_chunks, true, &items[i], step->size);
        const mscclpp_plan_range_t source =
            mscclpp_plan_find_range(alias->plan, alias->block_chunks, true, &items[0], step->size);

        /* A copy onto itself changes nothing. */
        if (!is_write || step->sources != 1 || items[0].packets != 0 || !mscclpp_plan_ranges_are_equal(range, source)) {
            note_use(alias, block, step_number, &items[i], is_write);
        }
        for (uint64_t chunk = range.first; in_loop && chunk < range.first + range.count && chunk < alias->count;
             ++chunk) {
            alias->uses[chunk].is_shared = true;
        }
    }
}

/* Each chunk must be unused on one side, or be read by the same threads before they write it. */
bool mscclpp_plan_works_in_place(const mscclpp_plan_t *plan, uint32_t rank, uint32_t block_chunks,
                                 const mscclpp_plan_program_t *program)
{
    const mscclpp_plan_rank_t *plan_rank = &plan->ranks[rank];
    const uint32_t in = plan_rank->chunks[MSCCLPP_PLAN_INPUT], out = plan_rank->chunks[MSCCLPP_PLAN_OUTPUT];
    alias_t alias = {
        .plan = plan, .program = program, .rank = rank, .block_chunks = block_chunks, .count = in > out ? in : out};
    bool works = alias.count <= CHUNKS_MAX, in_loop = false;

    alias.uses = works ? calloc(alias.count + 1, sizeof(*alias.uses)) : NULL;
    for (uint32_t block = 0; block < program->block_count && alias.uses != NULL; ++block) {
        for (uint32_t i = program->starts[block].step; i < program->starts[block + 1].step; ++i) {
            in_loop = program->steps[i].code == MSCCLPP_DEV_PLAN_LOOP ||
                      (in_loop && program->steps[i].code != MSCCLPP_DEV_PLAN_AGAIN);
            note_step(&alias, block, i, in_loop);
        }
    }
    works = works && alias.uses != NULL;
    for (uint64_t i = 0; i < alias.count && works; ++i) {
        const chunk_use_t *use = &alias.uses[i];

        /* If one step does both, each thread loads its units before it stores, so the two may be equal. */
        works = use->last_read == 0 || use->first_write == 0 || (!use->is_shared && use->last_read <= use->first_write);
    }
    free(alias.uses);
    return works;
}
