/* mscclpp_plan diff: in which operations two plans differ, whatever numbers and order of keys their files have. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/plan/words.h"
#include "tools/plan/plan_tool.h"

static const char help[] =
    "Usage: mscclpp_plan diff FILE FILE\n"
    "Tells in which operations two plans differ: - for those of the first only, + for those of the second only.\n"
    "What the files differ in besides, such as the order of keys, is no difference.\n"
    "\n"
    "Exit status: 0 if they do the same, 1 if they differ or one cannot be read, 2 for wrong usage.\n";

static const struct option table[] = {{"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};

enum { MOST_LINES = 4096 };

/* The operations of a block, each as one line. */
typedef struct {
    char **lines;
    size_t count;
} lines_t;

/* Adds the line of an operation. `text` says what the operation does; it is freed. False without memory. */
static bool add_line(lines_t *lines, size_t *room, const char *position, const mscclpp_plan_op_t *op, char *text)
{
    char **all;

    if (lines->count == *room) {
        *room = *room > 0 ? 2 * *room : 64;
        all = realloc(lines->lines, *room * sizeof(*all));
        if (all == NULL) {
            free(text);
            return false;
        }
        lines->lines = all;
    }
    if (text == NULL ||
        asprintf(&lines->lines[lines->count], "%s%-11s %s", position, mscclpp_plan_op_name(op->kind), text) < 0) {
        free(text);
        return false;
    }
    free(text);
    ++lines->count;
    return true;
}

/* Makes the lines of a block; none if the rank has no such block. False without memory. */
static bool make_block_lines(const mscclpp_plan_t *plan, uint32_t r, uint32_t b, lines_t *lines)
{
    const mscclpp_plan_block_t *block = b < plan->ranks[r].block_count ? &plan->ranks[r].blocks[b] : NULL;
    size_t room = 0;

    *lines = (lines_t){NULL, 0};
    for (uint32_t k = 0; block != NULL && k < block->op_count; ++k) {
        const mscclpp_plan_op_t *op = &block->ops[k];

        if (!add_line(lines, &room, "", op, plan_tool_describe(plan, r, op))) {
            return false;
        }
        for (uint32_t i = 0; i < op->body_count; ++i) {
            if (!add_line(lines, &room, "  ", &op->body[i], plan_tool_describe(plan, r, &op->body[i]))) {
                return false;
            }
        }
    }
    return true;
}

/* Frees the lines of a block. */
static void free_lines(lines_t *lines)
{
    for (size_t i = 0; i < lines->count; ++i) {
        free(lines->lines[i]);
    }
    free(lines->lines);
}

/* A table for the longest common subsequence: entry [i][k] is its length for the lines of `a` from i on and those of
 * `b` from k on. The caller frees it. NULL if the lists are too long, or without memory. */
static unsigned short *common_lengths(const lines_t *a, const lines_t *b)
{
    size_t width = b->count + 1;
    unsigned short *lengths =
        a->count > MOST_LINES || b->count > MOST_LINES ? NULL : calloc((a->count + 1) * width, sizeof(*lengths));

    for (size_t i = a->count; lengths != NULL && i-- > 0;) {
        for (size_t k = b->count; k-- > 0;) {
            unsigned short down = lengths[(i + 1) * width + k], right = lengths[i * width + k + 1];

            lengths[i * width + k] = strcmp(a->lines[i], b->lines[k]) == 0
                                         ? (unsigned short)(lengths[(i + 1) * width + k + 1] + 1)
                                         : (down > right ? down : right);
        }
    }
    return lengths;
}

/* Prints the lines that only one of two blocks has. True if there are none. */
static bool diff_block(uint32_t r, uint32_t block, const lines_t *a, const lines_t *b)
{
    unsigned short *lengths = common_lengths(a, b);
    size_t i = 0, k = 0, width = b->count + 1;
    bool same = true;

    while (i < a->count || k < b->count) {
        bool first;

        if (i < a->count && k < b->count && strcmp(a->lines[i], b->lines[k]) == 0) {
            ++i, ++k;
            continue;
        }
        if (same) {
            printf("rank %u, block %u\n", r, block);
            same = false;
        }
        first = k == b->count ||
                (i < a->count && (lengths == NULL || lengths[(i + 1) * width + k] >= lengths[i * width + k + 1]));
        if (first) {
            printf("- %5zu %s\n", i, a->lines[i]);
            ++i;
        } else {
            printf("+ %5zu %s\n", k, b->lines[k]);
            ++k;
        }
    }
    free(lengths);
    return same;
}

/* Prints what differs besides blocks: ranks, chunks, sizes and semaphores. True if nothing does. */
static bool diff_head(const mscclpp_plan_t *a, const mscclpp_plan_t *b)
{
    char *texts[2] = {NULL, NULL};
    size_t sizes[2];
    const mscclpp_plan_t *plans[2] = {a, b};
    bool same;

    for (int i = 0; i < 2; ++i) {
        FILE *out = open_memstream(&texts[i], &sizes[i]);

        if (out == NULL) {
            continue;
        }
        plan_tool_head(out, plans[i]);
        for (uint32_t r = 0; r < plans[i]->rank_count; ++r) {
            for (uint32_t s = 0; s < plans[i]->ranks[r].semaphore_count; ++s) {
                fprintf(out, "rank %u: semaphore %u begins with %u\n", r, s, plans[i]->ranks[r].semaphores[s]);
            }
        }
        fclose(out);
    }
    /* Without memory for the texts the plans count as different. */
    same = texts[0] != NULL && texts[1] != NULL && strcmp(texts[0], texts[1]) == 0;
    for (int i = 0; i < 2 && !same; ++i) {
        for (char *line = texts[i], *end; line != NULL && *line != '\0'; line = end + 1) {
            end = strchr(line, '\n');
            *end = '\0';
            printf("%c %s\n", i == 0 ? '-' : '+', line);
        }
    }
    free(texts[0]);
    free(texts[1]);
    return same;
}

/* Prints all differences of two plans. True if there are none. */
static bool diff(const mscclpp_plan_t *a, const mscclpp_plan_t *b)
{
    bool same = diff_head(a, b);
    uint32_t ranks = a->rank_count < b->rank_count ? a->rank_count : b->rank_count, blocks;

    for (uint32_t r = 0; r < ranks; ++r) {
        blocks = a->ranks[r].block_count > b->ranks[r].block_count ? a->ranks[r].block_count : b->ranks[r].block_count;
        for (uint32_t k = 0; k < blocks; ++k) {
            lines_t left, right = {NULL, 0};

            if (!make_block_lines(a, r, k, &left) || !make_block_lines(b, r, k, &right)) {
                fprintf(stderr, "mscclpp_plan: no memory\n");
                same = false;
            } else {
                same = diff_block(r, k, &left, &right) && same;
            }
            free_lines(&left);
            free_lines(&right);
        }
    }
    return same;
}

int plan_tool_diff(int argc, char **argv)
{
    mscclpp_plan_t *a, *b;
    int option, status;

    optind = 1;
    while ((option = getopt_long(argc, argv, "h", table, NULL)) != -1) {
        if (option != 'h') {
            return PLAN_USAGE;
        }
        fputs(help, stdout);
        return PLAN_OK;
    }
    if (optind + 2 != argc) {
        fprintf(stderr, "mscclpp_plan diff: two FILEs are wanted, there are %d\n", argc - optind);
        return PLAN_USAGE;
    }
    a = plan_tool_load(argv[optind]);
    b = plan_tool_load(argv[optind + 1]);
    status = a != NULL && b != NULL && diff(a, b) ? PLAN_OK : PLAN_REFUSED;
    mscclpp_plan_free(a);
    mscclpp_plan_free(b);
    return status;
}
