/* The picture: charts of time by bytes and of time by nodes, and bars for what links carry. */
#include <math.h>
#include <string.h>

#include "tools/sim/sim.h"

enum { WIDE = 560, HIGH = 400, LEFT = 70, TOP = 50, PLOT_WIDE = 330, PLOT_HIGH = 290, MOST_CURVES = 24 };

static const char *const colours[] = {"#1f5fa8", "#c0392b", "#2e8b57", "#8e44ad", "#b8860b",
                                      "#008b8b", "#555555", "#d2691e", "#4169e1", "#a0522d"};

enum { COLOURS = sizeof(colours) / sizeof(colours[0]) };

/* A chart with logarithmic axes. */
typedef struct {
    FILE *out;
    double least_x, most_x, least_y, most_y; /* logarithms to base 10 */
    bool by_bytes;
} chart_t;

/* The logarithm of a row's bytes or nodes. */
static double x_of(const sim_row_t *row, bool by_bytes)
{
    return log10(by_bytes ? (double)row->run.bytes : (double)row->run.schedule.nodes);
}

/* The lower bound of a row's time, seconds. */
static double bound_of(const sim_row_t *row)
{
    return row->bound.steps > row->bound.rails ? row->bound.steps : row->bound.rails;
}

/* The horizontal position of a value in the picture. */
static double x_pixel(const chart_t *chart, double x)
{
    return LEFT + PLOT_WIDE * (x - chart->least_x) / (chart->most_x - chart->least_x);
}

/* The vertical position of a value in the picture. */
static double y_pixel(const chart_t *chart, double y)
{
    return TOP + PLOT_HIGH * (chart->most_y - y) / (chart->most_y - chart->least_y);
}

/* Prints a number of bytes with a suffix. */
static void label_bytes(FILE *out, uint64_t bytes)
{
    static const char suffixes[] = " kMGT";
    int i = 0;

    while (bytes >= 1024 && bytes % 1024 == 0 && i < 4) {
        bytes /= 1024;
        ++i;
    }
    fprintf(out, "%llu", (unsigned long long)bytes);
    if (i > 0) {
        fputc(suffixes[i], out);
    }
}

/* Fits the axes to the rows. */
static void fit_axes(chart_t *chart, const sim_row_t *rows, size_t count)
{
    size_t i;

    chart->least_x = chart->least_y = INFINITY;
    chart->most_x = chart->most_y = -INFINITY;
    for (i = 0; i < count; ++i) {
        const double x = x_of(&rows[i], chart->by_bytes), bound = bound_of(&rows[i]);
        const double most = rows[i].result.time > 0 ? log10(rows[i].result.time) : -9;
        const double least = bound > 0 && log10(bound) < most ? log10(bound) : most;

        chart->least_x = x < chart->least_x ? x : chart->least_x;
        chart->most_x = x > chart->most_x ? x : chart->most_x;
        chart->least_y = least < chart->least_y ? least : chart->least_y;
        chart->most_y = most > chart->most_y ? most : chart->most_y;
    }
    chart->least_y = floor(chart->least_y);
    chart->most_y = ceil(chart->most_y) > chart->least_y ? ceil(chart->most_y) : chart->least_y + 1;
    if (!(chart->most_x > chart->least_x)) {
        chart->least_x -= 0.5;
        chart->most_x += 0.5;
    }
}

/* Draws the frame, the axes and their labels. */
static void draw_axes(const chart_t *chart, const sim_row_t *rows, size_t count, const char *title)
{
    static const char *const units[] = {"1 ns", "10 ns", "100 ns", "1 us", "10 us", "100 us",
                                        "1 ms", "10 ms", "100 ms", "1 s",  "10 s",  "100 s"};
    double last = -INFINITY;
    int y;
    size_t i;

    fprintf(chart->out, "<text x=\"%d\" y=\"24\" font-weight=\"bold\">%s</text>\n", LEFT, title);
    fprintf(chart->out, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" stroke=\"#888888\"/>\n", LEFT,
            TOP, PLOT_WIDE, PLOT_HIGH);
    for (y = (int)chart->least_y; y <= (int)chart->most_y; ++y) {
        fprintf(chart->out, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"#dddddd\"/>", LEFT,
                y_pixel(chart, y), LEFT + PLOT_WIDE, y_pixel(chart, y));
        fprintf(chart->out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", LEFT - 6,
                y_pixel(chart, y) + 4, y >= -9 && y <= 2 ? units[y + 9] : "");
    }
    for (i = 0; i < count; ++i) {
        const double x = x_pixel(chart, x_of(&rows[i], chart->by_bytes));

        if (fabs(x - last) < 26) {
            continue;
        }
        last = x;
        fprintf(chart->out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">", x, TOP + PLOT_HIGH + 16);
        if (chart->by_bytes) {
            label_bytes(chart->out, rows[i].run.bytes);
        } else {
            fprintf(chart->out, "%u", rows[i].run.schedule.nodes);
        }
        fprintf(chart->out, "</text>\n");
    }
    fprintf(chart->out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", LEFT + PLOT_WIDE / 2,
            TOP + PLOT_HIGH + 36, chart->by_bytes ? "bytes" : "nodes");
}

/* Whether two rows are on one curve: they have the same algorithm, and the same nodes in a chart by bytes, or else
 * the same bytes. */
static bool same_curve(const sim_row_t *a, const sim_row_t *b, bool by_bytes)
{
    return a->run.schedule.kind == b->run.schedule.kind &&
           (by_bytes ? a->run.schedule.nodes == b->run.schedule.nodes : a->run.bytes == b->run.bytes);
}

/* Draws the curve that the row `of` is on: the time, or the bound as a dashed line. */
static void draw_curve(const chart_t *chart, const sim_row_t *rows, size_t count, const sim_row_t *member, bool bound,
                       const char *colour)
{
    const char *separator = "";
    size_t i;

    fprintf(chart->out, "<polyline fill=\"none\" stroke=\"%s\" %s points=\"", colour,
            bound ? "stroke-dasharray=\"3,4\" stroke-width=\"1\"" : "stroke-width=\"2\"");
    for (i = 0; i < count; ++i) {
        const double seconds = bound ? bound_of(&rows[i]) : rows[i].result.time;

        if (same_curve(member, &rows[i], chart->by_bytes) && seconds > 0) {
            fprintf(chart->out, "%s%.1f,%.1f", separator, x_pixel(chart, x_of(&rows[i], chart->by_bytes)),
                    y_pixel(chart, log10(seconds)));
            separator = " ";
        }
    }
    fprintf(chart->out, "\"/>\n");
}

/* Draws a chart: a curve of the time and one of the bound for each algorithm and number of nodes or bytes. */
static void draw_chart(chart_t *chart, const sim_row_t *rows, size_t count, const char *title)
{
    int curves = 0;
    size_t i, j;

    fit_axes(chart, rows, count);
    draw_axes(chart, rows, count, title);
    for (i = 0; i < count && curves < MOST_CURVES; ++i) {
        const char *colour = colours[curves % COLOURS];

        for (j = 0; j < i && !same_curve(&rows[i], &rows[j], chart->by_bytes); ++j) {
        }
        if (j < i) {
            continue;
        }
        draw_curve(chart, rows, count, &rows[i], true, colour);
        draw_curve(chart, rows, count, &rows[i], false, colour);
        fprintf(chart->out, "<text x=\"%d\" y=\"%d\" fill=\"%s\">%s, ", LEFT + PLOT_WIDE + 8, TOP + 12 + 14 * curves,
                colour, mscclpp_schedule_name(rows[i].run.schedule.kind));
        if (chart->by_bytes) {
            fprintf(chart->out, "%u nodes", rows[i].run.schedule.nodes);
        } else {
            label_bytes(chart->out, rows[i].run.bytes);
        }
        fprintf(chart->out, "</text>\n");
        ++curves;
    }
    fprintf(chart->out, "<text x=\"%d\" y=\"%d\" fill=\"#444444\">dashed: the bound</text>\n", LEFT + PLOT_WIDE + 8,
            TOP + 20 + 14 * curves);
}

/* Draws a bar for each class of links: how busy the busiest link is, in the last row of each algorithm and number of
 * nodes. */
static void draw_traffic(FILE *out, const sim_row_t *rows, size_t count)
{
    int bars = 0, class;
    size_t i, j;

    fprintf(out, "<text x=\"%d\" y=\"24\" font-weight=\"bold\">busiest links, of the time</text>\n", LEFT);
    for (i = 0; i < count && bars < MOST_CURVES; ++i) {
        for (j = i + 1; j < count && !same_curve(&rows[i], &rows[j], true); ++j) {
        }
        for (class = 0; j == count && class < SIM_CLASSES && bars < MOST_CURVES; ++class) {
            const sim_traffic_t *traffic = &rows[i].result.traffic[class];

            if (traffic->links > 0) {
                fprintf(out, "<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"10\" fill=\"%s\"/>", LEFT,
                        TOP + 14 * bars, 200 * traffic->busy, colours[class]);
                fprintf(out, "<text x=\"%.1f\" y=\"%d\">%s, %.0f %%, %s, %u nodes, ", LEFT + 206 * traffic->busy + 4,
                        TOP + 9 + 14 * bars, sim_class_names[class], 100 * traffic->busy,
                        mscclpp_schedule_name(rows[i].run.schedule.kind), rows[i].run.schedule.nodes);
                label_bytes(out, rows[i].run.bytes);
                fprintf(out, "</text>\n");
                ++bars;
            }
        }
    }
}

void sim_draw(FILE *out, const sim_row_t *rows, size_t count)
{
    chart_t by_bytes = {.out = out, .by_bytes = true}, by_nodes = {.out = out};

    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
            "font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
            3 * WIDE, HIGH, 3 * WIDE, HIGH);
    fprintf(out, "<g>\n");
    draw_chart(&by_bytes, rows, count, "time by bytes");
    fprintf(out, "</g>\n<g transform=\"translate(%d,0)\">\n", WIDE);
    draw_chart(&by_nodes, rows, count, "time by nodes");
    fprintf(out, "</g>\n<g transform=\"translate(%d,0)\">\n", 2 * WIDE);
    draw_traffic(out, rows, count);
    fprintf(out, "</g>\n</svg>\n");
}
