/* A plan as a picture: a row for each block, a box for each operation, an arrow for each message. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mca/common/plan/words.h"
#include "tools/plan/plan_tool.h"

/* In pixels: the place of the first row, the height of a row, the gap between ranks, and the width of a row. */
enum { LEFT = 110, TOP = 56, ROW_HEIGHT = 16, RANK_GAP = 8, WIDTH = 1200 };

/*
 * In pixels: the space that is left above and below a box within its row, for boxes of operations and for boxes of
 * waiting times.
 */
enum { INSET = 2, WAIT_INSET = 5 };

/* The maximum number of arrows that are drawn. More arrows would hide the picture. */
enum { MAX_ARROWS = 4000 };

/* The colours of boxes and of arrows, by the kind of operation. */
#define COPY_COLOUR "#3070b0" /* copies and puts */
#define REDUCTION_COLOUR "#30904c"
#define PACKET_COLOUR "#8050a0"
#define SIGNAL_COLOUR "#d08030" /* signals, waits, semaphores */
#define OTHER_COLOUR "#666666"  /* nop, barrier */

/*
 * Returns the colour of an operation's box. draw_head() draws the legend. All operations that are not listed here are
 * reductions.
 */
static const char *get_colour(mscclpp_plan_op_kind_t kind)
{
    switch (kind) {
    case MSCCLPP_PLAN_OP_NOP:
    case MSCCLPP_PLAN_OP_BARRIER:
        return OTHER_COLOUR;
    case MSCCLPP_PLAN_OP_SIGNAL:
    case MSCCLPP_PLAN_OP_RLXSIGNAL:
    case MSCCLPP_PLAN_OP_WAIT:
    case MSCCLPP_PLAN_OP_RLXWAIT:
    case MSCCLPP_PLAN_OP_FLUSH:
    case MSCCLPP_PLAN_OP_ACQUIRE:
    case MSCCLPP_PLAN_OP_RELEASE:
        return SIGNAL_COLOUR;
    case MSCCLPP_PLAN_OP_PUT:
    case MSCCLPP_PLAN_OP_PWS:
    case MSCCLPP_PLAN_OP_PWSF:
    case MSCCLPP_PLAN_OP_GET:
    case MSCCLPP_PLAN_OP_COPY:
    case MSCCLPP_PLAN_OP_GSTORE:
        return COPY_COLOUR;
    case MSCCLPP_PLAN_OP_PPKT:
    case MSCCLPP_PLAN_OP_RPPKT:
    case MSCCLPP_PLAN_OP_CPKT:
    case MSCCLPP_PLAN_OP_UPKT:
    case MSCCLPP_PLAN_OP_GSTOREPKT:
        return PACKET_COLOUR;
    default:
        return REDUCTION_COLOUR;
    }
}

/* Prints a text in which characters that XML reserves are escaped. Control characters become question marks. */
static void print_escaped(FILE *out, const char *text)
{
    for (; *text != '\0'; ++text) {
        switch (*text) {
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '&':
            fputs("&amp;", out);
            break;
        default:
            fputc((unsigned char)*text < ' ' ? '?' : *text, out);
            break;
        }
    }
}

/* Returns the vertical position of the top of a block's row, in pixels. */
static double find_row_top(const mscclpp_plan_t *plan, uint32_t rank, uint32_t block)
{
    double y = TOP;

    for (uint32_t i = 0; i < rank; ++i) {
        y += plan->ranks[i].block_count * ROW_HEIGHT + RANK_GAP;
    }
    return y + block * ROW_HEIGHT;
}

/*
 * Draws a box for each operation and, before it, a thinner box for the time that the operation waited. Viewers show the
 * text of a box when the pointer is on it. `scale` is the number of pixels for a microsecond.
 */
static void draw_spans(FILE *out, const mscclpp_plan_t *plan, const mscclpp_plan_trace_t *trace, double scale)
{
    for (size_t i = 0; i < trace->span_count; ++i) {
        const mscclpp_plan_span_t *span = &trace->spans[i];
        const mscclpp_plan_op_t *op = &plan->ranks[span->rank].blocks[span->block].ops[span->op];
        double y = find_row_top(plan, span->rank, span->block);
        char *text;

        op = span->inner >= 0 ? &op->body[span->inner] : op;
        text = plan_tool_describe(plan, span->rank, op);
        if (span->began > span->came) {
            fprintf(out, "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%d\" fill=\"#f2dcc0\"/>\n",
                    LEFT + span->came * scale, y + WAIT_INSET, (span->began - span->came) * scale,
                    ROW_HEIGHT - 2 * WAIT_INSET);
        }
        fprintf(out, "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%d\" fill=\"%s\"><title>%u",
                LEFT + span->began * scale, y + INSET, (span->ended - span->began) * scale, ROW_HEIGHT - 2 * INSET,
                get_colour(op->kind), span->op);
        if (span->inner >= 0) {
            fprintf(out, ".%d, turn %u", span->inner, span->turn);
        }
        fprintf(out, " %s: ", mscclpp_plan_op_name(op->kind));
        print_escaped(out, text != NULL ? text : "");
        fprintf(out, " (%.2f to %.2f us, waited %.2f us)</title></rect>\n", span->began, span->ended,
                span->began - span->came);
        free(text);
    }
}

/* Draws an arrow for each message, but at most MAX_ARROWS arrows. `scale` is the number of pixels for a microsecond. */
static void draw_arrows(FILE *out, const mscclpp_plan_t *plan, const mscclpp_plan_trace_t *trace, double scale)
{
    if (trace->arrow_count > MAX_ARROWS) {
        fprintf(out, "<text x=\"%d\" y=\"36\" text-anchor=\"end\">the first %d of %zu arrows</text>\n", LEFT + WIDTH,
                (int)MAX_ARROWS, trace->arrow_count);
    }
    for (size_t i = 0; i < trace->arrow_count && i < MAX_ARROWS; ++i) {
        const mscclpp_plan_arrow_t *arrow = &trace->arrows[i];

        fprintf(out,
                "<line x1=\"%.2f\" y1=\"%.1f\" x2=\"%.2f\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"0.7\" "
                "stroke-opacity=\"0.6\" marker-end=\"url(#head)\"/>\n",
                LEFT + arrow->sent_at * scale, find_row_top(plan, arrow->from_rank, arrow->from_block) + ROW_HEIGHT / 2,
                LEFT + arrow->arrives_at * scale, find_row_top(plan, arrow->to_rank, arrow->to_block) + ROW_HEIGHT / 2,
                arrow->is_packet ? PACKET_COLOUR : SIGNAL_COLOUR);
    }
}

/* Begins the picture: sets its size, defines the arrowhead, and draws the title and the legend of the colours. */
static void draw_head(FILE *out, const mscclpp_plan_t *plan, const mscclpp_plan_trace_t *trace, uint64_t bytes)
{
    double bottom = find_row_top(plan, plan->rank_count, 0) + 24;

    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" font-family=\"sans-serif\" "
            "font-size=\"11\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
            "<defs><marker id=\"head\" markerWidth=\"5\" markerHeight=\"5\" refX=\"4\" refY=\"2.5\" orient=\"auto\">"
            "<path d=\"M0,0 L5,2.5 L0,5 z\" fill=\"#804000\"/></marker></defs>\n<text x=\"8\" y=\"18\" "
            "font-size=\"14\">",
            LEFT + WIDTH + 20, bottom);
    print_escaped(out, plan->name);
    fprintf(out, ": %s of %llu bytes on %u ranks, %.1f us by the cost model</text>\n",
            mscclpp_plan_collective_name(plan->collective), (unsigned long long)bytes, plan->rank_count, trace->ended);
    fprintf(out, "<text x=\"8\" y=\"36\"><tspan fill=\"" COPY_COLOUR
                 "\">copies and puts</tspan>  <tspan fill=\"" REDUCTION_COLOUR "\">"
                 "reductions</tspan>  <tspan fill=\"" PACKET_COLOUR "\">packets</tspan>  <tspan fill=\"" SIGNAL_COLOUR
                 "\">signals, waits, "
                 "semaphores</tspan>  <tspan fill=\"" OTHER_COLOUR "\">nop, barrier</tspan></text>\n");
}

/* Draws the row of each thread block of each rank: its label, and a line that the operations are drawn over. */
static void draw_rows(FILE *out, const mscclpp_plan_t *plan)
{
    for (uint32_t rank = 0; rank < plan->rank_count; ++rank) {
        for (uint32_t block = 0; block < plan->ranks[rank].block_count; ++block) {
            double y = find_row_top(plan, rank, block);

            fprintf(out,
                    "<text x=\"8\" y=\"%.1f\">rank %u block %u</text>\n<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" "
                    "y2=\"%.1f\" stroke=\"#dddddd\"/>\n",
                    y + 12, rank, block, LEFT, y + ROW_HEIGHT / 2, LEFT + WIDTH, y + ROW_HEIGHT / 2);
        }
    }
}

/* Fails if the file cannot be opened or written. A file that could not be written completely is not removed. */
bool plan_tool_svg(const char *path, const mscclpp_plan_t *plan, const mscclpp_plan_trace_t *trace, uint64_t bytes)
{
    double scale = trace->ended > 0 ? WIDTH / trace->ended : 1;
    FILE *out = fopen(path, "w");
    bool ok;

    if (out == NULL) {
        fprintf(stderr, "mscclpp_plan: %s: %s\n", path, strerror(errno));
        return false;
    }
    draw_head(out, plan, trace, bytes);
    draw_rows(out, plan);
    draw_spans(out, plan, trace, scale);
    draw_arrows(out, plan, trace, scale);
    fprintf(out, "</svg>\n");
    ok = ferror(out) == 0;
    ok = fclose(out) == 0 && ok;
    if (!ok) {
        fprintf(stderr, "mscclpp_plan: %s: cannot be written\n", path);
    }
    return ok;
}
