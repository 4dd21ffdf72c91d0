#include "mca/common/plan/program.h"

#include <stdlib.h>
#include <string.h>

void mscclpp_plan_program_destroy(mscclpp_plan_program_t *program)
{
    free(program->steps);
    free(program->items);
    free(program->links);
    free(program->starts);
    memset(program, 0, sizeof(*program));
}

uint32_t mscclpp_plan_program_max_chunks(const mscclpp_plan_program_t *program)
{
    uint32_t max_chunks = 0;

    for (uint32_t i = 0; i < program->step_count; ++i) {
        max_chunks = program->steps[i].size > max_chunks ? program->steps[i].size : max_chunks;
    }
    return max_chunks;
}

uint32_t mscclpp_plan_program_brief_chunks(const mscclpp_plan_program_t *program)
{
    bool is_brief = true;

    for (uint32_t i = 0; i < program->step_count; ++i) {
        const mscclpp_dev_plan_step_t *step = &program->steps[i];

        is_brief = is_brief && (step->code == MSCCLPP_DEV_PLAN_NOP || step->code == MSCCLPP_DEV_PLAN_END ||
                                (step->code == MSCCLPP_DEV_PLAN_DATA && step->parts == 0));
    }
    return is_brief ? program->max_chunks : 0;
}

/*
 * Sets the counters of one step's links. A signal increments a counter of the peer. A wait reads a counter of this
 * rank.
 */
static void resolve_links(mscclpp_dev_plan_link_t *links, uint32_t count, bool is_signal, uint32_t rank,
                          uint64_t *const *counters)
{
    for (uint32_t i = 0; i < count; ++i) {
        links[i].counter = counters[is_signal ? links[i].peer : rank] + links[i].slot;
    }
}

void mscclpp_plan_program_resolve(mscclpp_plan_program_t *program, uint32_t rank, uint64_t *const *counters)
{
    for (uint32_t block = 0; block < program->block_count; ++block) {
        const mscclpp_dev_plan_start_t first = program->starts[block], end = program->starts[block + 1];

        for (uint32_t i = first.step; i < end.step; ++i) {
            const mscclpp_dev_plan_step_t *step = &program->steps[i];
            const bool is_signal = step->code == MSCCLPP_DEV_PLAN_SIGNAL;

            if (is_signal || step->code == MSCCLPP_DEV_PLAN_WAIT) {
                resolve_links(program->links + first.link + step->links, step->count, is_signal, rank, counters);
            }
        }
    }
}

/* Returns the larger of two numbers. */
static uint32_t larger(uint32_t one, uint32_t other)
{
    return one > other ? one : other;
}

/*
 * Gives all blocks the same amount of memory, enough for the longest program, so that kernels find a block's copy by
 * multiplication.
 */
uint64_t mscclpp_plan_program_measure(const mscclpp_plan_program_t *program, mscclpp_dev_plan_args_t *args)
{
    uint32_t max_links = 0;

    args->max_steps = args->max_items = 0;
    for (uint32_t block = 0; block < program->block_count; ++block) {
        const mscclpp_dev_plan_start_t first = program->starts[block], end = program->starts[block + 1];

        args->max_steps = larger(args->max_steps, end.step - first.step);
        args->max_items = larger(args->max_items, end.item - first.item);
        max_links = larger(max_links, end.link - first.link);
    }
    args->program_bytes = MSCCLPP_DEV_PLAN_WORDS(args->max_steps, args->max_items, max_links) * sizeof(uint32_t);
    return args->max_steps <= MSCCLPP_DEV_PLAN_STEPS && args->max_items <= MSCCLPP_DEV_PLAN_ITEMS &&
                   max_links <= MSCCLPP_DEV_PLAN_LINKS
               ? program->block_count * args->program_bytes
               : 0;
}

/*
 * The lists of steps, items and links start at the same offsets in all blocks, so that kernels find them in the same
 * way.
 */
void mscclpp_plan_program_pack(const mscclpp_plan_program_t *program, const mscclpp_dev_plan_args_t *args, void *to)
{
    memset(to, 0, program->block_count * args->program_bytes);
    for (uint32_t block = 0; block < program->block_count; ++block) {
        const mscclpp_dev_plan_start_t first = program->starts[block], end = program->starts[block + 1];
        char *steps = (char *)to + block * args->program_bytes;
        char *items = steps + args->max_steps * sizeof(*program->steps);
        char *links = items + args->max_items * sizeof(*program->items);

        /* A list without entries may be NULL, which memcpy does not allow. */
        if (end.step > first.step) {
            memcpy(steps, program->steps + first.step, (end.step - first.step) * sizeof(*program->steps));
        }
        if (end.item > first.item) {
            memcpy(items, program->items + first.item, (end.item - first.item) * sizeof(*program->items));
        }
        if (end.link > first.link) {
            memcpy(links, program->links + first.link, (end.link - first.link) * sizeof(*program->links));
        }
    }
}
