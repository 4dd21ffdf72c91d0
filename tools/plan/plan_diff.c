/* mscclpp_plan diff: prints in which operations two plans differ. The order of keys in their files does not matter. */
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

static const struct option option_table[] = {{"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};

/*
 * The maximum number of lines of a block for which the longest common subsequence is computed. The table for it has
 * about as many entries as the square of this number. Longer blocks are compared line by line.
 */
enum { MAX_LINES = 4096 };

/* The operations of a block, each as one line. */
typedef struct {
    char **lines;
    size_t count;
} lines_t;

/*
 * Adds a line for an operation. The line consists of `indent`, the name of the operation, and `text`, which says what
 * the operation does. The function takes ownership of `text`, which may be NULL if the caller ran out of memory.
 * *capacity_p is the number of lines for which memory is allocated. Returns false if memory runs out. The lines that
 * were added before remain valid, but no more lines may be added.
 */
static bool add_line(lines_t *lines, size_t *capacity_p, const char *indent, const mscclpp_plan_op_t *op, char *text)
{
    char **grown;

    if (lines->count == *capacity_p) {
        *capacity_p = *capacity_p > 0 ? 2 * *capacity_p : 64;
        grown = realloc(lines->lines, *capacity_p * sizeof(*grown));
        if (grown == NULL) {
            free(text);
            return false;
        }
        lines->lines = grown;
    }
    if (text == NULL ||
        asprintf(&lines->lines[lines->count], "%s%-11s %s", indent, mscclpp_plan_op_name(op->kind), text) < 0) {
        free(text);
        return false;
    }
    free(text);
    ++lines->count;
    return true;
}

/*
 * Makes the lines of a block, or none if the rank has no such block. Returns false if memory runs out. The caller frees
 * the lines in both cases.
 */
static bool make_block_lines(const mscclpp_plan_t *plan, uint32_t rank, uint32_t number, lines_t *lines)
{
    const mscclpp_plan_block_t *block =
        number < plan->ranks[rank].block_count ? &plan->ranks[rank].blocks[number] : NULL;
    size_t capacity = 0;

    *lines = (lines_t){NULL, 0};
    for (uint32_t i = 0; block != NULL && i < block->op_count; ++i) {
        const mscclpp_plan_op_t *op = &block->ops[i];

        if (!add_line(lines, &capacity, "", op, plan_tool_describe(plan, rank, op))) {
            return false;
        }
        for (uint32_t j = 0; j < op->body_count; ++j) {
            if (!add_line(lines, &capacity, "  ", &op->body[j], plan_tool_describe(plan, rank, &op->body[j]))) {
                return false;
            }
        }
    }
    return true;
}

/* Frees the lines and their array. */
static void free_lines(lines_t *lines)
{
    for (size_t i = 0; i < lines->count; ++i) {
        free(lines->lines[i]);
    }
    free(lines->lines);
}

/*
 * Returns the table of the longest common subsequence: entry [i][j] is the length of this subsequence for the lines of
 * `a` from i to the end and the lines of `b` from j to the end. The table is filled from its end to its beginning,
 * because an entry depends on the entries with larger indices. No length exceeds MAX_LINES, so 16 bits are enough. The
 * caller frees the table. Returns NULL if a list has more than MAX_LINES lines, or if memory runs out.
 */
static unsigned short *compute_common_lengths(const lines_t *a, const lines_t *b)
{
    size_t width = b->count + 1;
    unsigned short *lengths =
        a->count > MAX_LINES || b->count > MAX_LINES ? NULL : calloc((a->count + 1) * width, sizeof(*lengths));

    for (size_t i = a->count; lengths != NULL && i-- > 0;) {
        for (size_t j = b->count; j-- > 0;) {
            unsigned short down = lengths[(i + 1) * width + j], right = lengths[i * width + j + 1];
            unsigned short length = down > right ? down : right;

            if (strcmp(a->lines[i], b->lines[j]) == 0) {
                length = (unsigned short)(lengths[(i + 1) * width + j + 1] + 1);
            }
            lengths[i * width + j] = length;
        }
    }
    return lengths;
}

/*
 * Prints the lines that only one of two blocks has, below a heading. Returns true if there are no such lines. Where the
 * next lines of the two blocks differ, the function skips the line whose loss leaves the longer common subsequence. If
 * there is no table of common lengths, the function skips the lines of `a` first, so it may print more lines than
 * necessary.
 */
static bool diff_block(uint32_t rank, uint32_t block, const lines_t *a, const lines_t *b)
{
    unsigned short *lengths = compute_common_lengths(a, b);
    size_t i = 0, j = 0, width = b->count + 1;
    bool is_same = true;

    while (i < a->count || j < b->count) {
        bool is_of_a;

        if (i < a->count && j < b->count && strcmp(a->lines[i], b->lines[j]) == 0) {
            ++i, ++j;
            continue;
        }
        if (is_same) {
            printf("rank %u, block %u\n", rank, block);
            is_same = false;
        }
        is_of_a = j == b->count ||
                  (i < a->count && (lengths == NULL || lengths[(i + 1) * width + j] >= lengths[i * width + j + 1]));
        if (is_of_a) {
            printf("- %5zu %s\n", i, a->lines[i]);
            ++i;
        } else {
            printf("+ %5zu %s\n", j, b->lines[j]);
            ++j;
        }
    }
    free(lengths);
    return is_same;
}

/*
 * Compares what plan_tool_print_head says of both plans, of whose ranks it describes rank 0 only, and the initial
 * values of all semaphores. If the plans differ there, prints these lines. Returns true if they do not differ. The
 * function first writes each plan's lines into a text in memory and then compares the two texts.
 */
static bool diff_head(const mscclpp_plan_t *a, const mscclpp_plan_t *b)
{
    char *texts[2] = {NULL, NULL};
    size_t sizes[2];
    const mscclpp_plan_t *plans[2] = {a, b};
    bool is_same;

    for (int i = 0; i < 2; ++i) {
        FILE *out = open_memstream(&texts[i], &sizes[i]);

        if (out == NULL) {
            continue;
        }
        plan_tool_print_head(out, plans[i]);
        for (uint32_t rank = 0; rank < plans[i]->rank_count; ++rank) {
            for (uint32_t number = 0; number < plans[i]->ranks[rank].semaphore_count; ++number) {
                fprintf(out, "rank %u: semaphore %u begins with %u\n", rank, number,
                        plans[i]->ranks[rank].semaphores[number]);
            }
        }
        fclose(out);
    }
    /* If memory for the texts ran out, the plans count as different. */
    is_same = texts[0] != NULL && texts[1] != NULL && strcmp(texts[0], texts[1]) == 0;
    for (int i = 0; i < 2 && !is_same; ++i) {
        for (char *line = texts[i], *line_end; line != NULL && *line != '\0'; line = line_end) {
            line_end =
                line + strcspn(line, "\n"); /* a text that was cut for lack of memory has no newline at its end */
            printf("%c %.*s\n", i == 0 ? '-' : '+', (int)(line_end - line), line);
            line_end += *line_end == '\n';
        }
    }
    free(texts[0]);
    free(texts[1]);
    return is_same;
}

/*
 * Prints the differences of the heads and of the operations of two plans. Returns true if there are none. The chunks
 * and channels of ranks other than 0 are compared only as far as operations name them. If memory runs out for a block,
 * the function prints a message and counts the block as different.
 */
static bool diff_plans(const mscclpp_plan_t *a, const mscclpp_plan_t *b)
{
    /* The heads show whether the numbers of ranks differ. Ranks that only one plan has are not compared. */
    bool is_same = diff_head(a, b);
    uint32_t common_ranks = a->rank_count < b->rank_count ? a->rank_count : b->rank_count, block_count;

    for (uint32_t rank = 0; rank < common_ranks; ++rank) {
        block_count = a->ranks[rank].block_count > b->ranks[rank].block_count ? a->ranks[rank].block_count
                                                                              : b->ranks[rank].block_count;
        for (uint32_t block = 0; block < block_count; ++block) {
            lines_t lines_of_a, lines_of_b = {NULL, 0};

            if (!make_block_lines(a, rank, block, &lines_of_a) || !make_block_lines(b, rank, block, &lines_of_b)) {
                fprintf(stderr, "mscclpp_plan: no memory\n");
                is_same = false;
            } else {
                is_same = diff_block(rank, block, &lines_of_a, &lines_of_b) && is_same;
            }
            free_lines(&lines_of_a);
            free_lines(&lines_of_b);
        }
    }
    return is_same;
}

/*
 * Returns PLAN_REFUSED if the plans differ or a plan cannot be loaded, and PLAN_USAGE for a wrong option or if there
 * are not exactly two files.
 */
int plan_tool_diff(int argc, char **argv)
{
    mscclpp_plan_t *a, *b;
    int option, status;

    optind = 1;
    while ((option = getopt_long(argc, argv, "h", option_table, NULL)) != -1) {
        if (option != 'h') {
            return PLAN_USAGE;
        }
        fputs(help, stdout);
        return PLAN_OK;
    }
    if (optind + 2 != argc) {
        fprintf(stderr, "mscclpp_plan diff: two FILEs are needed, but there are %d\n", argc - optind);
        return PLAN_USAGE;
    }
    a = plan_tool_load(argv[optind]);
    b = plan_tool_load(argv[optind + 1]);
    status = a != NULL && b != NULL && diff_plans(a, b) ? PLAN_OK : PLAN_REFUSED;
    mscclpp_plan_free(a);
    mscclpp_plan_free(b);
    return status;
}
