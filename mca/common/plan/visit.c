#include "mca/common/plan/visit.h"

#include "mca/common/plan/words.h"

/* Visits a block's operations, each pipeline before the operations in it. */
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
    for (uint32_t r = 0; r < plan->rank_count; ++r) {
        for (uint32_t b = 0; b < plan->ranks[r].block_count; ++b) {
            visit_block(&plan->ranks[r].blocks[b], (mscclpp_plan_place_t){(int)r, (int)b, -1, -1, NULL}, visit,
                        context);
        }
    }
}
