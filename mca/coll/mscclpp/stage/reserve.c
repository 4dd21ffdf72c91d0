/* Room for copies of an argument whose parts are far apart. */
#include "mca/coll/mscclpp/stage/stage.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "mca/common/base/log.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE                                                                                            \
    0 /* Older systems take the address as a hint. map_memory undoes a mapping at another                              \
         address. */
#endif

/* Parts that are at most this far apart are near each other, and share a window. */
#define NEAR_BYTES ((ptrdiff_t)1 << 30)

/* The addresses at which windows are tried: above those of programs, and below the end of the address space. */
#define LOWEST_ADDRESS ((uintptr_t)1 << 33)
#define END_ADDRESS ((uintptr_t)1 << 47)

/* How many random addresses are tried before the whole range is mapped. */
#define TRIES 100

/* Above this many bytes windows are tried first, to leave enough address space for the call's other argument. */
#define WINDOWS_FROM ((size_t)1 << 36)

/*
 * The ranges that the parts of an argument occupy, in ascending order. Bounds are in bytes from the buffer's address.
 */
typedef struct {
    int count;
    struct {
        ptrdiff_t low, high;
    } span[MCA_COLL_MSCCLPP_STAGE_WINDOWS];
} spans_t;

/*
 * Adds the span low .. high - 1, and merges it with all spans that are at most NEAR bytes away. Before and after, the
 * spans ascend, and no two of them are near each other. Returns false if there would be more than
 * MCA_COLL_MSCCLPP_STAGE_WINDOWS spans.
 */
static bool add_span(spans_t *spans, ptrdiff_t low, ptrdiff_t high)
{
    int first = 0, end, after_end;

    while (first < spans->count && spans->span[first].high + NEAR_BYTES < low) {
        ++first;
    }
    for (end = first; end < spans->count && spans->span[end].low <= high + NEAR_BYTES; ++end) {
        low = spans->span[end].low < low ? spans->span[end].low : low;
        high = spans->span[end].high > high ? spans->span[end].high : high;
    }
    after_end = spans->count - end;
    if (first + 1 + after_end > MCA_COLL_MSCCLPP_STAGE_WINDOWS) {
        return false;
    }
    memmove(&spans->span[first + 1], &spans->span[end], (size_t)after_end * sizeof(spans->span[0]));
    spans->span[first].low = low;
    spans->span[first].high = high;
    spans->count = first + 1 + after_end;
    return true;
}

/*
 * Adds the spans of a piece, which is a copy that this function changes. Runs that are near each other have one span;
 * otherwise each run has its own. The same holds for repeats. Returns false if there are too many spans. A piece with
 * more distant runs or repeats than there are windows is refused at once.
 */
static bool add_piece(spans_t *spans, mca_coll_mscclpp_stage_piece_t piece)
{
    const bool far_runs = piece.count > 1 && (piece.stride > NEAR_BYTES || piece.stride < -NEAR_BYTES);
    const bool far_repeats = piece.repeats > 1 && (piece.extent > NEAR_BYTES || piece.extent < -NEAR_BYTES);
    const size_t runs = far_runs ? piece.count : 1, repeats = far_repeats ? piece.repeats : 1;
    const ptrdiff_t offset = piece.offset;
    bool fits = runs <= MCA_COLL_MSCCLPP_STAGE_WINDOWS && repeats <= MCA_COLL_MSCCLPP_STAGE_WINDOWS;

    piece.count = far_runs ? 1 : piece.count;
    piece.repeats = far_repeats ? 1 : piece.repeats;
    for (size_t repeat = 0; repeat < repeats && fits; ++repeat) {
        for (size_t run = 0; run < runs && fits; ++run) {
            ptrdiff_t low, high;

            piece.offset = offset + (ptrdiff_t)repeat * piece.extent + (ptrdiff_t)run * piece.stride;
            mca_coll_mscclpp_stage_piece_bounds(&piece, &low, &high);
            fits = add_span(spans, low, high);
        }
    }
    return fits;
}

/* Adds the spans that a list of pieces covers. Returns false if there are too many. */
static bool add_pieces(spans_t *spans, const mca_coll_mscclpp_stage_pieces_t *list)
{
    bool fits = true;

    for (size_t index = 0; index < list->used && fits; ++index) {
        fits = add_piece(spans, list->pieces[index]);
    }
    return fits;
}

/* Maps memory at `address`, or anywhere if `address` is NULL. Returns NULL, without a log, if that fails. */
static char *map_memory(char *address, size_t size)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (address != NULL ? MAP_FIXED_NOREPLACE : 0);
    void *mapped = mmap(address, size, PROT_READ | PROT_WRITE, flags, -1, 0);

    if (MAP_FAILED == mapped) {
        return NULL;
    }
    if (address != NULL && mapped != address) {
        munmap(mapped, size);
        return NULL;
    }
    /* With transparent huge pages, each part would take a huge page. */
    (void)madvise(mapped, size, MADV_NOHUGEPAGE);
    return mapped;
}

void mca_coll_mscclpp_stage_unreserve(mca_coll_mscclpp_stage_reservation_t *reservation)
{
    for (int i = 0; i < reservation->count; ++i) {
        if (0 != munmap(reservation->windows[i].address, reservation->windows[i].size)) {
            mscclpp_warn("cannot give back %zu bytes of address space: %m", reservation->windows[i].size);
        }
    }
    reservation->count = 0;
}

/* Maps memory at an address (NULL: anywhere), and notes it in the reservation. Returns false if that fails. */
static bool map_window(mca_coll_mscclpp_stage_reservation_t *reservation, char *address, size_t size)
{
    char *mapped = map_memory(address, size);

    if (mapped != NULL) {
        reservation->windows[reservation->count].address = mapped;
        reservation->windows[reservation->count].size = size;
        ++reservation->count;
    }
    return mapped != NULL;
}

/*
 * Maps a window for each span. The copy of plan->low is `in_page` bytes after `range_start`, and all other copies are
 * as far from it as the data are from plan->low. If a window cannot be mapped, unmaps the others and returns false.
 */
static bool map_windows(const mca_coll_mscclpp_stage_plan_t *plan, const spans_t *spans, char *range_start,
                        size_t in_page, size_t slack, mca_coll_mscclpp_stage_reservation_t *reservation)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);

    for (int i = 0; i < spans->count; ++i) {
        const size_t begin = (in_page + (size_t)(spans->span[i].low - plan->low)) / page * page;
        const size_t end = in_page + (size_t)(spans->span[i].high - plan->low) + slack;

        if (!map_window(reservation, range_start + begin, (end - begin + page - 1) / page * page)) {
            mca_coll_mscclpp_stage_unreserve(reservation);
            return false;
        }
    }
    return true;
}

/*
 * Returns a random address, at a page boundary, with room for `size` bytes within the range above. Returns NULL if
 * there is none, or without a random number.
 */
static char *guess_address(size_t size)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uint64_t number;

    if (size >= END_ADDRESS - LOWEST_ADDRESS || getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number)) {
        return NULL;
    }
    return (char *)((LOWEST_ADDRESS + number % (END_ADDRESS - LOWEST_ADDRESS - size)) / page * page);
}

/*
 * Chooses a random range of addresses, maps windows in it, and returns the start of the range. Makes up to TRIES
 * attempts. Returns NULL, with nothing mapped, if they all fail, if there are too many parts, or if one window would
 * hold all parts.
 */
static char *find_windows(const mca_coll_mscclpp_stage_plan_t *plan, size_t in_page, size_t slack, size_t size,
                          mca_coll_mscclpp_stage_reservation_t *reservation)
{
    spans_t spans = {0};
    char *range_start;

    if (!add_pieces(&spans, &plan->in) || !add_pieces(&spans, &plan->out) || spans.count < 2) {
        return NULL;
    }
    for (int i = 0; i < TRIES && (range_start = guess_address(size)) != NULL; ++i) {
        if (map_windows(plan, &spans, range_start, in_page, slack, reservation)) {
            return range_start;
        }
    }
    return NULL;
}

/* Tries windows first if the range is large. If there are none, the whole range becomes the only window, number 0. */
mscclpp_status_t mca_coll_mscclpp_stage_reserve(const mca_coll_mscclpp_stage_plan_t *plan, size_t in_page, size_t slack,
                                                mca_coll_mscclpp_stage_reservation_t *reservation, void **memory_p)
{
    const size_t size = in_page + (size_t)(plan->high - plan->low) + slack;
    char *range_start = NULL;

    reservation->count = 0;
    if (size > WINDOWS_FROM) {
        range_start = find_windows(plan, in_page, slack, size, reservation);
    }
    if (range_start == NULL && map_window(reservation, NULL, size)) {
        range_start = reservation->windows[0].address;
    }
    if (range_start == NULL) {
        mscclpp_error("cannot reserve %zu bytes of address space for a staged buffer whose parts lie so far apart: %m",
                      size);
        return MSCCLPP_ERR_NO_MEMORY;
    }
    *memory_p = range_start;
    return MSCCLPP_OK;
}
