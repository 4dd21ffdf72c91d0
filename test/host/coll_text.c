/* Cases as text: what a line about a failure says, and the numbers by which test_collectives repeats a case. */
#include <stdio.h>

#include "test/host/coll_case.h"
#include "test/host/elements.h"

void case_describe(const case_t *c, int rank, char *text, size_t size)
{
    static const char *const places[] = {"out of place", "in place", "some in place"};
    static const char *const layouts[] = {"even", "uneven", "gaps", "shuffled", "holes", "silent", "lone"};
    const case_side_t *side = &c->side[rank];
    char type[64] = "", root[32] = "";

    if (c->combines) {
        snprintf(type, sizeof(type), " %s %s", element_of(c->dtype)->name, element_op_name(c->op));
    }
    if (case_has_root(c->coll)) {
        snprintf(root, sizeof(root), ", root %d", c->root);
    }
    snprintf(text, size,
             "%s by %s, %d ranks, nodes %d, grid %dx%d,%s blocks of up to %llu bytes%s%s%s%s%s; rank %d: %sin %s + %u, "
             "%zu bytes, "
             "out %s + %u, %zu bytes",
             mscclpp_coll_name(c->coll), case_algos[c->choice.algo], c->ranks, c->choice.nodes, c->choice.blocks,
             c->choice.threads, type, (unsigned long long)c->most, root, c->choice.place >= 0 ? ", " : "",
             c->choice.place >= 0 ? places[c->choice.place] : "", c->varied ? ", " : "",
             c->varied ? layouts[c->choice.layout] : "", rank, side->in_place ? "in place, " : "",
             side->has_in ? user_kind_name(side->in_kind) : "NULL", side->in_offset, side->in_bytes,
             side->has_out ? user_kind_name(side->out_kind) : "NULL", side->out_offset, side->out_bytes);
}

#define CHOICES 15

void case_write_choice(const case_choice_t *choice, char *text, size_t size)
{
    const case_choice_t *c = choice;

    snprintf(text, size, "%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d", c->coll, c->algo, c->ranks, c->blocks,
             c->threads, c->size, c->dtype, c->op, c->place, c->in_align, c->out_align, c->root, c->kind, c->layout,
             c->nodes);
}

bool case_read_choice(const char *text, case_choice_t *choice)
{
    case_choice_t *c = choice;
    char rest;

    return sscanf(text, "%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d%c", &c->coll, &c->algo, &c->ranks, &c->blocks,
                  &c->threads, &c->size, &c->dtype, &c->op, &c->place, &c->in_align, &c->out_align, &c->root, &c->kind,
                  &c->layout, &c->nodes, &rest) == CHOICES &&
           c->coll >= 0 && c->coll <= CASE_ALLREDUCE && c->algo >= 0 && c->algo <= CASE_LAST_ALGO && c->ranks >= 1 &&
           c->ranks <= RANKS_MAX;
}
