/*
 * Prints what kernels execute of each plan: a line for each block with its steps, and one for each rank that says
 * whether calls in place work. Usage: lowered [--orders] FILE...
 */
#include <stdio.h>
#include <string.h>

#include "mca/common/plan/library.h"
#include "mca/common/plan/lower.h"

/* Prints one step: its code's name, and for data "sources>targets", with a p for each target that holds packets. */
static void print_step(const mscclpp_dev_plan_step_t *step, const mscclpp_dev_plan_item_t *items)
{
    static const char *const names[] = {"nop",         "barrier",    "signal", "wait", "acquire", "release", "put",
                                        "port_signal", "port_flush", "data",   "loop", "again",   "end"};

    printf(" %s", names[step->code]);
    if (step->code == MSCCLPP_DEV_PLAN_DATA) {
        printf("(%u>%u", step->sources, step->targets);
        for (uint32_t i = 0; i < step->targets; ++i) {
            printf("%s", items[step->items + step->sources + i].packets != 0 ? "p" : "");
        }
        printf(")");
    }
}

static void print_rank(const char *path, uint32_t rank, const mscclpp_plan_program_t *program)
{
    for (uint32_t block = 0; block < program->block_count; ++block) {
        printf("%s: rank %u block %u:", path, rank, block);
        for (uint32_t i = program->starts[block].step; i < program->starts[block + 1].step; ++i) {
            print_step(&program->steps[i], program->items + program->starts[block].item);
        }
        printf("\n");
    }
    printf("%s: rank %u: in place: %s\n", path, rank, program->works_in_place ? "yes" : "no");
}

int main(int argc, char **argv)
{
    const bool orders = argc > 1 && strcmp(argv[1], "--orders") == 0;

    for (int i = orders ? 2 : 1; i < argc; ++i) {
        mscclpp_plan_library_t *library = mscclpp_plan_library_create(argv[i]);
        mscclpp_plan_file_t *file = NULL;
        mscclpp_plan_program_t program;
        const char *reason = "refused";

        if (mscclpp_plan_library_load(library, &file) != 1 || file->plan == NULL || file->refusal != NULL) {
            printf("%s: refused\n", argv[i]);
        } else {
            for (uint32_t rank = 0; rank < file->plan->rank_count; ++rank) {
                if (mscclpp_plan_lower(file->plan, rank, NULL, orders, &program, &reason) != MSCCLPP_OK) {
                    printf("%s: rank %u: %s\n", argv[i], rank, reason);
                    continue;
                }
                print_rank(argv[i], rank, &program);
                mscclpp_plan_program_destroy(&program);
            }
        }
        mscclpp_plan_library_destroy(library);
    }
    return 0;
}
