/* Draws the picture of --svg: charts of time by bytes and of time by nodes, and bars for the traffic of links. */
#include <math.h>
#include <string.h>

#include "tools/sim/sim.h"

/* In pixels: a panel, the place of the plot within it, and the plot. */
enum { PANEL_WIDTH = 560, PANEL_HEIGHT = 400, PLOT_LEFT = 70, PLOT_TOP = 50, PLOT_WIDTH = 330, PLOT_HEIGHT = 290 };

/*
 * In pixels: the distance of two lines of text, the least distance of two labels of an axis, and the bar of a link that
 * is busy all the time.
 */
enum { LINE_HEIGHT = 14, LABEL_WIDTH = 26, FULL_BAR = 200, BAR_LABEL = 206 /* where its label begins */ };

/* In pixels: distances of texts from the panel's top, from an edge of the plot, or from the line of a value. */
enum {
    TITLE_BASELINE = 24,       /* from the panel's top */
    TIME_LABEL_GAP = 6,        /* from the end of a label to the plot's left edge */
    TIME_LABEL_BASELINE = 4,   /* from the line of the label's value, which then points at the label's middle */
    LOWER_LABEL_BASELINE = 16, /* from the plot's bottom */
    LOWER_NAME_BASELINE = 36   /* from the plot's bottom */
};

/* The range of times that have labels, as powers of ten of a second: 1 ns to 100 s. */
enum { MIN_POWER = -9, MAX_POWER = 2 };

/* The most curves or bars in a panel. There is no room for more labels, so other curves and bars are left out. */
enum { MAX_CURVES = 24 };

static const char *const colours[] = {"#1f5fa8", "#c0392b", "#2e8b57", "#8e44ad", "#b8860b",
                                      "#008b8b", "#555555", "#d2691e", "#4169e1", "#a0522d"};

enum { COLOURS = sizeof(colours) / sizeof(colours[0]) };

/* A chart with logarithmic axes. */
typedef struct {
    FILE *out;
    double min_x, max_x, min_y, max_y; /* logarithms to base 10 */
    bool by_bytes;
} chart_t;

/* Returns the logarithm, to base 10, of a row's bytes or nodes. */
static double x_of(const sim_row_t *row, bool by_bytes)
{
    return log10(by_bytes ? (double)row->run.bytes : (double)row->run.schedule.nodes);
}

static double bound_of(const sim_row_t *row)
{
    return row->bound.steps > row->bound.rails ? row->bound.steps : row->bound.rails;
}

/* These return where a value of an axis is in the picture, in pixels from the left and from the top. */
static double x_pixel(const chart_t *chart, double x)
{
    return PLOT_LEFT + PLOT_WIDTH * (x - chart->min_x) / (chart->max_x - chart->min_x);
}

static double y_pixel(const chart_t *chart, double y)
{
    return PLOT_TOP + PLOT_HEIGHT * (chart->max_y - y) / (chart->max_y - chart->min_y);
}

/* Prints a number of bytes with a suffix: the largest unit that divides the number. */
static void print_bytes(FILE *out, uint64_t bytes)
{
    static const char suffixes[] = " kMGT";
    int power = 0;

    while (bytes >= 1024 && bytes % 1024 == 0 && power < 4) {
        bytes /= 1024;
        ++power;
    }
    fprintf(out, "%llu", (unsigned long long)bytes);
    if (power > 0) {
        fputc(suffixes[power], out);
    }
}

/*
 * Sets the ranges of the axes so that they contain all rows. The axis of time begins and ends at powers of ten. Neither
 * range is empty, even if there is only one row.
 */
static void fit_axes(chart_t *chart, const sim_row_t *rows, size_t count)
{
    size_t i;

    chart->min_x = chart->min_y = INFINITY;
    chart->max_x = chart->max_y = -INFINITY;
    for (i = 0; i < count; ++i) {
        const double x = x_of(&rows[i], chart->by_bytes), bound = bound_of(&rows[i]);
        const double time_log = rows[i].result.time > 0 ? log10(rows[i].result.time) : MIN_POWER;
        const double lower_log = bound > 0 && log10(bound) < time_log ? log10(bound) : time_log;

        chart->min_x = x < chart->min_x ? x : chart->min_x;
        chart->max_x = x > chart->max_x ? x : chart->max_x;
        chart->min_y = lower_log < chart->min_y ? lower_log : chart->min_y;
        chart->max_y = time_log > chart->max_y ? time_log : chart->max_y;
    }
    chart->min_y = floor(chart->min_y);
    chart->max_y = ceil(chart->max_y) > chart->min_y ? ceil(chart->max_y) : chart->min_y + 1;
    if (!(chart->max_x > chart->min_x)) {
        chart->min_x -= 0.5;
        chart->max_x += 0.5;
    }
}

/*
 * Draws the frame, the axes and their labels. Leaves out a label of the lower axis that would touch the label drawn
 * last.
 */
static void draw_axes(const chart_t *chart, const sim_row_t *rows, size_t count, const char *title)
{
    /* The labels from 10^MIN_POWER to 10^MAX_POWER seconds. */
    static const char *const time_labels[] = {"1 ns", "10 ns", "100 ns", "1 us", "10 us", "100 us",
                                              "1 ms", "10 ms", "100 ms", "1 s",  "10 s",  "100 s"};
    double last_pixel = -INFINITY;
    int power;
    size_t i;

    fprintf(chart->out, "<text x=\"%d\" y=\"%d\" font-weight=\"bold\">%s</text>\n", PLOT_LEFT, TITLE_BASELINE, title);
    fprintf(chart->out, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" stroke=\"#888888\"/>\n",
            PLOT_LEFT, PLOT_TOP, PLOT_WIDTH, PLOT_HEIGHT);
    for (power = (int)chart->min_y; power <= (int)chart->max_y; ++power) {
        fprintf(chart->out, "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"#dddddd\"/>", PLOT_LEFT,
                y_pixel(chart, power), PLOT_LEFT + PLOT_WIDTH, y_pixel(chart, power));
        fprintf(chart->out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", PLOT_LEFT - TIME_LABEL_GAP,
                y_pixel(chart, power) + TIME_LABEL_BASELINE,
                power >= MIN_POWER && power <= MAX_POWER ? time_labels[power - MIN_POWER] : "");
    }
    for (i = 0; i < count; ++i) {
        const double pixel = x_pixel(chart, x_of(&rows[i], chart->by_bytes));

        if (fabs(pixel - last_pixel) < LABEL_WIDTH) {
            continue;
        }
        last_pixel = pixel;
        fprintf(chart->out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">", pixel,
                PLOT_TOP + PLOT_HEIGHT + LOWER_LABEL_BASELINE);
        if (chart->by_bytes) {
            print_bytes(chart->out, rows[i].run.bytes);
        } else {
            fprintf(chart->out, "%u", rows[i].run.schedule.nodes);
        }
        fprintf(chart->out, "</text>\n");
    }
    fprintf(chart->out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", PLOT_LEFT + PLOT_WIDTH / 2,
            PLOT_TOP + PLOT_HEIGHT + LOWER_NAME_BASELINE, chart->by_bytes ? "bytes" : "nodes");
}

/*
 * Returns true if two rows are on one curve. They must have the same algorithm. In a chart by bytes they must also have
 * the same number of nodes, and in a chart by nodes the same bytes.
 */
static bool are_on_one_curve(const sim_row_t *a, const sim_row_t *b, bool by_bytes)
{
    return a->run.schedule.kind == b->run.schedule.kind &&
           (by_bytes ? a->run.schedule.nodes == b->run.schedule.nodes : a->run.bytes == b->run.bytes);
}

/* Draws the curve to which the row `member` belongs: its time or, if `is_bound`, its lower bound as a dashed line. */
static void draw_curve(const chart_t *chart, const sim_row_t *rows, size_t count, const sim_row_t *member,
                       bool is_bound, const char *colour)
{
    const char *separator = "";
    size_t i;

    fprintf(chart->out, "<polyline fill=\"none\" stroke=\"%s\" %s points=\"", colour,
            is_bound ? "stroke-dasharray=\"3,4\" stroke-width=\"1\"" : "stroke-width=\"2\"");
    for (i = 0; i < count; ++i) {
        const double seconds = is_bound ? bound_of(&rows[i]) : rows[i].result.time;

        if (are_on_one_curve(member, &rows[i], chart->by_bytes) && seconds > 0) {
            fprintf(chart->out, "%s%.1f,%.1f", separator, x_pixel(chart, x_of(&rows[i], chart->by_bytes)),
                    y_pixel(chart, log10(seconds)));
            separator = " ";
        }
    }
    fprintf(chart->out, "\"/>\n");
}

/*
 * Draws a chart: one curve of the time and one of the lower bound for each algorithm and number of nodes (or number of
 * bytes). At most MAX_CURVES such pairs are drawn.
 */
static void draw_chart(chart_t *chart, const sim_row_t *rows, size_t count, const char *title)
{
    int curves = 0;
    size_t i, j;

    fit_axes(chart, rows, count);
    draw_axes(chart, rows, count, title);
    for (i = 0; i < count && curves < MAX_CURVES; ++i) {
        const char *colour = colours[curves % COLOURS];

        /* A curve is drawn when the loop is at the first row of the curve. */
        for (j = 0; j < i && !are_on_one_curve(&rows[i], &rows[j], chart->by_bytes); ++j) {
        }
        if (j < i) {
            continue;
        }
        draw_curve(chart, rows, count, &rows[i], true, colour);
        draw_curve(chart, rows, count, &rows[i], false, colour);
        fprintf(chart->out, "<text x=\"%d\" y=\"%d\" fill=\"%s\">%s, ", PLOT_LEFT + PLOT_WIDTH + 8,
                PLOT_TOP + 12 + LINE_HEIGHT * curves, colour, mscclpp_schedule_kind_name(rows[i].run.schedule.kind));
        if (chart->by_bytes) {
            fprintf(chart->out, "%u nodes", rows[i].run.schedule.nodes);
        } else {
            print_bytes(chart->out, rows[i].run.bytes);
        }
        fprintf(chart->out, "</text>\n");
        ++curves;
    }
    fprintf(chart->out, "<text x=\"%d\" y=\"%d\" fill=\"#444444\">dashed: the bound</text>\n",
            PLOT_LEFT + PLOT_WIDTH + 8, PLOT_TOP + 20 + LINE_HEIGHT * curves);
}

/*
 * Draws bars for the last row of each algorithm and number of nodes: one bar for each class that has links. A bar is as
 * long as the fraction of the time in which the busiest link of the class carries bytes. At most MAX_CURVES bars are
 * drawn in all.
 */
static void draw_traffic(FILE *out, const sim_row_t *rows, size_t count)
{
    int bars = 0, class;
    size_t i, j;

    fprintf(out, "<text x=\"%d\" y=\"%d\" font-weight=\"bold\">busiest links, of the time</text>\n", PLOT_LEFT,
            TITLE_BASELINE);
    for (i = 0; i < count && bars < MAX_CURVES; ++i) {
        /* Bars are drawn when the loop is at the last row of a curve of time by bytes. */
        for (j = i + 1; j < count && !are_on_one_curve(&rows[i], &rows[j], true); ++j) {
        }
        for (class = 0; j == count && class < SIM_CLASSES && bars < MAX_CURVES; ++class) {
            const sim_traffic_t *traffic = &rows[i].result.traffic[class];

            if (traffic->links > 0) {
                fprintf(out, "<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"10\" fill=\"%s\"/>", PLOT_LEFT,
                        PLOT_TOP + LINE_HEIGHT * bars, FULL_BAR * traffic->busy_fraction, colours[class]);
                fprintf(out, "<text x=\"%.1f\" y=\"%d\">%s, %.0f %%, %s, %u nodes, ",
                        PLOT_LEFT + BAR_LABEL * traffic->busy_fraction + 4, PLOT_TOP + 9 + LINE_HEIGHT * bars,
                        sim_class_names[class], 100 * traffic->busy_fraction,
                        mscclpp_schedule_kind_name(rows[i].run.schedule.kind), rows[i].run.schedule.nodes);
                print_bytes(out, rows[i].run.bytes);
                fprintf(out, "</text>\n");
                ++bars;
            }
        }
    }
}

/* Draws three panels side by side: two charts of times and the traffic. */
void sim_draw(FILE *out, const sim_row_t *rows, size_t count)
{
    chart_t by_bytes = {.out = out, .by_bytes = true}, by_nodes = {.out = out};

    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
            "font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
            3 * PANEL_WIDTH, PANEL_HEIGHT, 3 * PANEL_WIDTH, PANEL_HEIGHT);
    fprintf(out, "<g>\n");
    draw_chart(&by_bytes, rows, count, "time by bytes");
    fprintf(out, "</g>\n<g transform=\"translate(%d,0)\">\n", PANEL_WIDTH);
    draw_chart(&by_nodes, rows, count, "time by nodes");
    fprintf(out, "</g>\n<g transform=\"translate(%d,0)\">\n", 2 * PANEL_WIDTH);
    draw_traffic(out, rows, count);
    fprintf(out, "</g>\n</svg>\n");
}
