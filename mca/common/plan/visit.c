#include "mca/common/plan/visit.h"

#include "mca/common/plan/words.h"

/* Visits all operations of a block. A pipeline is visited before the operations of its body. */
static void visit_block(const mscclpp_plan_block_t *block, mscclpp_plan_place_t place, mscclpp_plan_visit_fn_t visit,
                        void *context)
{
    for (uint32_t i = 0; i < block->op_count; ++i) {
        mscclpp_plan_op_t *op = &block->ops[i];

        place.op = (int)i;
        place.inner = -1;
        place.name = mscclpp_plan_op_name(op->kind);
        visit(context, place, op, NULL);
        for (uint32_t j = 0; j < op->body_count; ++j) {
            place.inner = (int)j;
            place.name = mscclpp_plan_op_name(op->body[j].kind);
            visit(context, place, &op->body[j], op);
        }
    }
}

void mscclpp_plan_visit(const mscclpp_plan_t *plan, mscclpp_plan_visit_fn_t visit, void *context)
{
    for (uint32_t rank_number = 0; rank_number < plan->rank_count; ++rank_number) {
        for (uint32_t block_index = 0; block_index < plan->ranks[rank_number].block_count; ++block_index) {
            visit_block(
                &plan->ranks[rank_number].blocks[block_index],
                (mscclpp_plan_place_t){.rank = (int)rank_number, .block = (int)block_index, .op = -1, .inner = -1},
                visit, context);
        }
    }
}
