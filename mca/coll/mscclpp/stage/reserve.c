/* Room for copies of an argument whose parts lie far apart. */
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

/* Parts that lie at most this many bytes apart share a window. */
#define NEAR ((ptrdiff_t)1 << 30)

/* The addresses at which windows are tried: above those of programs, and below the end of the address space. */
#define LOWEST_ADDRESS ((uintptr_t)1 << 33)
#define END_ADDRESS ((uintptr_t)1 << 47)

/* How many random addresses are tried. */
#define TRIES 100

/* Above this many bytes windows are tried first, to leave enough address space for the call's other argument. */
#define WINDOWS_FROM ((size_t)1 << 36)

/* The ranges that the parts occupy, in ascending order, in bytes from the buffer's address. */
typedef struct {
    int count;
    struct {
        ptrdiff_t low, high;
    } spans[MCA_COLL_MSCCLPP_STAGE_WINDOWS];
} spans_t;

/* Adds the span low .. high - 1, and merges it with the spans near it. False if there are too many spans. */
static bool add_span(spans_t *spans, ptrdiff_t low, ptrdiff_t high)
{
    int first = 0, end, behind;

    while (first < spans->count && spans->spans[first].high + NEAR < low) {
        ++first;
    }
    for (end = first; end < spans->count && spans->spans[end].low <= high + NEAR; ++end) {
        low = spans->spans[end].low < low ? spans->spans[end].low : low;
        high = spans->spans[end].high > high ? spans->spans[end].high : high;
    }
    behind = spans->count - end;
    if (first + 1 + behind > MCA_COLL_MSCCLPP_STAGE_WINDOWS) {
        return false;
    }
    memmove(&spans->spans[first + 1], &spans->spans[end], (size_t)behind * sizeof(spans->spans[0]));
    spans->spans[first].low = low;
    spans->spans[first].high = high;
    spans->count = first + 1 + behind;
    return true;
}

/* Adds the spans of a piece: one for each run, or one for runs that lie close together. False if there are too many. */
static bool add_piece(spans_t *spans, mca_coll_mscclpp_stage_piece_t piece)
{
    const bool far_runs = piece.count > 1 && (piece.stride > NEAR || piece.stride < -NEAR);
    const bool far_repeats = piece.repeats > 1 && (piece.extent > NEAR || piece.extent < -NEAR);
    const size_t runs = far_runs ? piece.count : 1, repeats = far_repeats ? piece.repeats : 1;
    const ptrdiff_t offset = piece.offset;
    bool added = runs <= MCA_COLL_MSCCLPP_STAGE_WINDOWS && repeats <= MCA_COLL_MSCCLPP_STAGE_WINDOWS;

    piece.count = far_runs ? 1 : piece.count;
    piece.repeats = far_repeats ? 1 : piece.repeats;
    for (size_t repeat = 0; repeat < repeats && added; ++repeat) {
        for (size_t run = 0; run < runs && added; ++run) {
            ptrdiff_t low, high;

            piece.offset = offset + (ptrdiff_t)repeat * piece.extent + (ptrdiff_t)run * piece.stride;
            mca_coll_mscclpp_stage_piece_bounds(&piece, &low, &high);
            added = add_span(spans, low, high);
        }
    }
    return added;
}

/* Adds the spans that a list of pieces covers. False if there are too many. */
static bool add_pieces(spans_t *spans, const mca_coll_mscclpp_stage_pieces_t *list)
{
    bool added = true;

    for (size_t index = 0; index < list->used && added; ++index) {
        added = add_piece(spans, list->pieces[index]);
    }
    return added;
}

/* Maps memory at `address`, or anywhere if `address` is NULL. Returns NULL on failure. */
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

void mca_coll_mscclpp_stage_unreserve(mca_coll_mscclpp_stage_room_t *room)
{
    for (int i = 0; i < room->count; ++i) {
        if (0 != munmap(room->windows[i].address, room->windows[i].size)) {
            mscclpp_warn("cannot give back %zu bytes of address space: %m", room->windows[i].size);
        }
    }
    room->count = 0;
}

/* Maps memory at an address (NULL: anywhere), and notes it in the room. False if that fails. */
static bool map_window(mca_coll_mscclpp_stage_room_t *room, char *address, size_t size)
{
    char *mapped = map_memory(address, size);

    if (mapped != NULL) {
        room->windows[room->count].address = mapped;
        room->windows[room->count].size = size;
        ++room->count;
    }
    return mapped != NULL;
}

/*
 * Maps a window for each span. The copy of plan->low is to lie `in_page` bytes behind `block`, and all other copies as
 * far from it as the data are from plan->low. If a window cannot be mapped, returns false with nothing mapped.
 */
static bool map_windows(const mca_coll_mscclpp_stage_plan_t *plan, const spans_t *spans, char *block, size_t in_page,
                        size_t slack, mca_coll_mscclpp_stage_room_t *room)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);

    for (int i = 0; i < spans->count; ++i) {
        const size_t begin = (in_page + (size_t)(spans->spans[i].low - plan->low)) / page * page;
        const size_t end = in_page + (size_t)(spans->spans[i].high - plan->low) + slack;

        if (!map_window(room, block + begin, (end - begin + page - 1) / page * page)) {
            mca_coll_mscclpp_stage_unreserve(room);
            return false;
        }
    }
    return true;
}

/* A random address, at a page boundary, with room for `size` bytes within the range above. NULL if there is none. */
static char *guess_address(size_t size)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uint64_t number;

    if (size >= END_ADDRESS - LOWEST_ADDRESS || getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number)) {
        return NULL;
    }
    return (char *)((LOWEST_ADDRESS + number % (END_ADDRESS - LOWEST_ADDRESS - size)) / page * page);
}

/* Maps windows at a random address. NULL if that fails, if there are too many parts, or if one window holds all. */
static char *find_windows(const mca_coll_mscclpp_stage_plan_t *plan, size_t in_page, size_t slack, size_t size,
                          mca_coll_mscclpp_stage_room_t *room)
{
    spans_t spans = {0};
    char *block;

    if (!add_pieces(&spans, &plan->in) || !add_pieces(&spans, &plan->out) || spans.count < 2) {
        return NULL;
    }
    for (int i = 0; i < TRIES && (block = guess_address(size)) != NULL; ++i) {
        if (map_windows(plan, &spans, block, in_page, slack, room)) {
            return block;
        }
    }
    return NULL;
}

mscclpp_status_t mca_coll_mscclpp_stage_reserve(const mca_coll_mscclpp_stage_plan_t *plan, size_t in_page, size_t slack,
                                                mca_coll_mscclpp_stage_room_t *room, void **block_p)
{
    const size_t size = in_page + (size_t)(plan->high - plan->low) + slack;
    char *block = NULL;

    room->count = 0;
    if (size > WINDOWS_FROM) {
        block = find_windows(plan, in_page, slack, size, room);
    }
    if (block == NULL && map_window(room, NULL, size)) {
        block = room->windows[0].address;
    }
    if (block == NULL) {
        mscclpp_error("cannot reserve %zu bytes of address space for a staged buffer whose parts lie so far apart: %m",
                      size);
        return MSCCLPP_ERR_NO_MEMORY;
    }
    *block_p = block;
    return MSCCLPP_OK;
}
