/* Draws pictures: the topology, and each point's schedule step by step. Ranks are drawn on a circle. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/synth/synth_tool.h"

/* Sizes in pixels. */
enum {
    SIDE = 360,   /* side of a panel, without its title */
    RADIUS = 130, /* radius of the circle of ranks */
    DOT = 13,     /* radius of a rank's dot */
    HEAD = 60,    /* height of a panel's title */
    FOOT = 24,    /* height of the line below all panels */
    SIDEWAYS = 3, /* distance of an arrow from the line between the centres */
    TIP = 5,      /* distance of the end of an arrow's line from the dot, as its head is longer */
    THICKEST = 6  /* width of the thickest arrow; the line below the panels names it */
};

enum { PANELS_IN_ROW = 4, NODE_COLOURS = 4 };

/* Colours of arrows. draw_arrow tells them apart by their first digit. */
#define PUT_COLOUR "#3070b0"  /* the chunk replaces the receiver's value */
#define ADD_COLOUR "#d08030"  /* the chunk is added to the receiver's value */
#define LINK_COLOUR "#888888" /* a link of the topology */

/* Writes text with the characters that XML reserves escaped. */
static void write_escaped(FILE *out, const char *text)
{
    for (; *text != '\0'; ++text) {
        if (*text == '<' || *text == '>' || *text == '&') {
            fprintf(out, *text == '<' ? "&lt;" : *text == '>' ? "&gt;" : "&amp;");
        } else {
            fputc((unsigned char)*text < ' ' ? '?' : *text, out);
        }
    }
}

/* Computes the centre of a rank's dot. All ranks are on a circle. */
static void dot_position(const synth_topology_t *topology, int rank, double *x, double *y)
{
    double angle = 2 * M_PI * rank / topology->ranks - M_PI / 2;

    *x = SIDE / 2.0 + RADIUS * cos(angle);
    *y = HEAD / 2.0 + SIDE / 2.0 + RADIUS * sin(angle);
}

/*
 * Draws an arrow between the rims of the dots of two different ranks. The arrow is drawn a little to the right of the
 * line between their centres, so that the arrow in the other direction is visible, too. The colour has to be one of the
 * colours above; it also selects the arrow's head.
 */
static void draw_arrow(FILE *out, const synth_topology_t *topology, int from, int to, double width, const char *colour)
{
    double x1, y1, x2, y2, dx, dy, length;

    dot_position(topology, from, &x1, &y1);
    dot_position(topology, to, &x2, &y2);
    length = hypot(x2 - x1, y2 - y1);
    dx = (x2 - x1) / length;
    dy = (y2 - y1) / length;
    x1 += dx * DOT - dy * SIDEWAYS;
    y1 += dy * DOT + dx * SIDEWAYS;
    x2 -= dx * (DOT + TIP) + dy * SIDEWAYS;
    y2 -= dy * (DOT + TIP) - dx * SIDEWAYS;
    fprintf(out,
            "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"%.1f\" "
            "marker-end=\"url(#%s)\"/>\n",
            x1, y1, x2, y2, colour, width,
            colour[1] == '3'   ? "put"
            : colour[1] == 'd' ? "add"
                               : "link");
}

/* Draws the ranks as numbered dots, in the colour of their node. The colours repeat. */
static void draw_ranks(FILE *out, const synth_topology_t *topology)
{
    static const char *const colours[NODE_COLOURS] = {"#e8eef6", "#f6eee0", "#e6f4e8", "#f2e6f4"};

    for (int rank = 0; rank < topology->ranks; ++rank) {
        double x, y;

        dot_position(topology, rank, &x, &y);
        fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%d\" fill=\"%s\" stroke=\"#444444\"/>", x, y, DOT,
                colours[topology->node_of[rank] % NODE_COLOURS]);
        fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%d</text>\n", x,
                y + 4 /* the baseline: the digits are then centred in the dot */, rank);
    }
}

/* Begins the panel of this column and row. The caller closes its group. */
static void begin_panel(FILE *out, int column, int row)
{
    fprintf(out, "<g transform=\"translate(%d,%d)\">\n", column * SIDE, row * (SIDE + HEAD));
}

/* Draws the first panel: all links. The thickness of a link is its capacity, at most THICKEST. */
static void draw_topology(FILE *out, const synth_topology_t *topology)
{
    begin_panel(out, 0, 0);
    fprintf(out, "<text x=\"12\" y=\"22\" font-weight=\"bold\">");
    write_escaped(out, topology->name);
    fprintf(out, "</text><text x=\"12\" y=\"40\">%d ranks, %d links, %d groups</text>\n", topology->ranks,
            topology->link_count, topology->group_count);
    for (int i = 0; i < topology->link_count; ++i) {
        const synth_link_t *link = &topology->links[i];
        double width = link->capacity < THICKEST ? link->capacity : THICKEST;

        draw_arrow(out, topology, link->from, link->to, width, LINK_COLOUR);
    }
    draw_ranks(out, topology);
    fprintf(out, "</g>\n");
}

/*
 * Draws the panel of one step of a schedule: an arrow for each link that is used. The thickness of an arrow is its
 * number of chunks, at most THICKEST. If some of the chunks are added, the arrow has the colour of additions.
 */
static void draw_step(FILE *out, const synth_topology_t *topology, const synth_point_t *point, int step, int column,
                      int row)
{
    const synth_schedule_t *schedule = point->schedule;
    int sends = 0;

    begin_panel(out, column, row);
    for (int i = 0; i < schedule->send_count; ++i) {
        sends += schedule->sends[i].step == step;
    }
    fprintf(out,
            "<text x=\"12\" y=\"22\" font-weight=\"bold\">%s, %d chunks, %d steps, %d rounds (%s)</text>"
            "<text x=\"12\" y=\"40\">step %d: %d round%s, %d sends</text>\n",
            synth_collective_names[schedule->collective], schedule->chunks, schedule->steps,
            synth_schedule_rounds(schedule), synth_label_names[point->label], step + 1, schedule->rounds[step],
            schedule->rounds[step] == 1 ? "" : "s", sends);
    for (int link = 0; link < topology->link_count; ++link) {
        int puts = 0, adds = 0;

        for (int i = 0; i < schedule->send_count; ++i) {
            const synth_send_t *send = &schedule->sends[i];

            if (send->step == step && send->from == topology->links[link].from &&
                send->to == topology->links[link].to) {
                puts += !send->adds;
                adds += send->adds;
            }
        }
        if (puts + adds > 0) {
            double width = puts + adds < THICKEST ? puts + adds : THICKEST;

            draw_arrow(out, topology, topology->links[link].from, topology->links[link].to, width,
                       adds > 0 ? ADD_COLOUR : PUT_COLOUR);
        }
    }
    draw_ranks(out, topology);
    fprintf(out, "</g>\n");
}

bool synth_tool_svg(const char *path, const synth_topology_t *topology, const synth_front_t *front)
{
    static const char *const heads[][2] = {{"put", PUT_COLOUR}, {"add", ADD_COLOUR}, {"link", LINK_COLOUR}};
    FILE *out = fopen(path, "w");
    int rows = 1, columns = 1, row = 1; /* row 0 contains the topology; the steps of each schedule begin a new row */
    bool ok;

    if (out == NULL) {
        fprintf(stderr, "mscclpp_synth: %s: %s\n", path, strerror(errno));
        return false;
    }
    for (int i = 0; front != NULL && i < front->count; ++i) {
        int steps = front->points[i].schedule->steps;

        rows += (steps + PANELS_IN_ROW - 1) / PANELS_IN_ROW;
        columns = steps > columns ? steps : columns;
    }
    columns = columns < PANELS_IN_ROW ? columns : PANELS_IN_ROW;
    fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" ",
            columns * SIDE, rows * (SIDE + HEAD) + FOOT);
    fprintf(out, "font-size=\"12\"><rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n<defs>");
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); ++i) {
        fprintf(out,
                "<marker id=\"%s\" markerUnits=\"userSpaceOnUse\" markerWidth=\"9\" markerHeight=\"9\" refX=\"3\" "
                "refY=\"4\" orient=\"auto\"><path d=\"M0,0 L9,4 L0,8 z\" fill=\"%s\"/></marker>",
                heads[i][0], heads[i][1]);
    }
    fprintf(out, "</defs>\n");
    draw_topology(out, topology);
    for (int i = 0; front != NULL && i < front->count; ++i) {
        int steps = front->points[i].schedule->steps;

        for (int step = 0; step < steps; ++step) {
            draw_step(out, topology, &front->points[i], step, step % PANELS_IN_ROW, row + step / PANELS_IN_ROW);
        }
        row += (steps + PANELS_IN_ROW - 1) / PANELS_IN_ROW;
    }
    fprintf(out,
            "<text x=\"12\" y=\"%d\">Arrows: as many chunks as they are thick, up to 6; blue take the place of what is "
            "there, orange are added.</text>\n</svg>\n",
            rows * (SIDE + HEAD) + FOOT - 8);
    ok = !ferror(out);
    if (fclose(out) != 0 || !ok) {
        fprintf(stderr, "mscclpp_synth: %s: %s\n", path, strerror(errno));
        return false;
    }
    return true;
}
