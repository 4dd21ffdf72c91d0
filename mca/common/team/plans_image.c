#include "mca/common/team/plans_image.h"

#include <stdlib.h>
#include <string.h>

#define IMAGE_ALIGNMENT 64 /* of its parts, bytes */

/* The part of a room that only this rank uses, in the form in which it is copied to the device. */
typedef struct {
    char *bytes;   /* NULL: only the size is counted */
    uint64_t size; /* bytes appended so far */
} image_t;

/*
 * Appends `size` bytes to the image, zeroed ones if `from` is NULL, and returns their offset. If image->bytes is NULL,
 * only counts the bytes.
 */
static uint64_t append_bytes(image_t *image, const void *from, uint64_t size)
{
    const uint64_t offset = image->size;

    if (image->bytes != NULL && size > 0 && from != NULL) {
        memcpy(image->bytes + offset, from, size);
    }
    image->size = (offset + size + IMAGE_ALIGNMENT - 1) / IMAGE_ALIGNMENT * IMAGE_ALIGNMENT;
    return offset;
}

/* Returns the address at an offset from `base`, which may be NULL. */
static void *address_in(char *base, uint64_t offset)
{
    return (void *)((uintptr_t)base + offset);
}

/* Sets the addresses that the program's links lead to: counters of signals, with which each rank's room begins. */
static void resolve_links(mscclpp_team_plan_t *plan, const mscclpp_team_t *team)
{
    uint64_t *counters[MSCCLPP_DEV_MAX_RANKS];

    for (int rank = 0; rank < team->group.oob.size; ++rank) {
        counters[rank] = (uint64_t *)(void *)plan->room.peers[rank];
    }
    mscclpp_plan_program_resolve(&plan->program, (uint32_t)team->group.oob.rank, counters);
}

/*
 * Appends the program. If it fits the memory of a block, appends it in the form that blocks copy there, and otherwise
 * as it is. Fills in the arguments that say where it is. Links must be resolved before they are copied; to count the
 * size, this is not necessary.
 */
static void append_program(mscclpp_team_plan_t *plan, const mscclpp_team_t *team, image_t *image, char *base)
{
    mscclpp_plan_program_t *program = &plan->program;
    mscclpp_dev_plan_args_t *args = &plan->args;
    const uint64_t bytes = mscclpp_plan_program_measure(program, args);
    uint64_t offset;

    if (image->bytes != NULL) {
        resolve_links(plan, team);
    }
    args->programs = NULL;
    if (bytes > 0) {
        offset = append_bytes(image, NULL, bytes);
        args->programs = address_in(base, offset);
        if (image->bytes != NULL) {
            mscclpp_plan_program_pack(program, args, image->bytes + offset);
        }
        return;
    }
    args->steps = address_in(base, append_bytes(image, program->steps, program->step_count * sizeof(*program->steps)));
    args->items = address_in(base, append_bytes(image, program->items, program->item_count * sizeof(*program->items)));
    args->links = address_in(base, append_bytes(image, program->links, program->link_count * sizeof(*program->links)));
    args->starts =
        address_in(base, append_bytes(image, program->starts, (program->block_count + 1) * sizeof(*program->starts)));
}

/*
 * Returns true if packets in the plan's scratch may lie in planes (MSCCLPP_DEV_PLAN_PLANE). args->width must be set.
 * The addresses of a byte in two processes differ by whole pages, and pairs of planes are smaller than pages. So all
 * ranks come to the same result. Between nodes the result is false: a proxy moves any bytes of the scratch, and might
 * take one packet of a unit without the other.
 */
static bool allows_planes(const mscclpp_team_t *team, const mscclpp_dev_plan_args_t *args)
{
    uint64_t address_bits = args->half; /* of all places, combined by OR */

    for (int rank = 0; rank < team->group.oob.size; ++rank) {
        address_bits |= (uintptr_t)args->bases[MSCCLPP_DEV_PLAN_BUFFERS * rank + MSCCLPP_DEV_PLAN_SCRATCH];
    }
    return args->width == MSCCLPP_DEV_LL16 && team->fabric == NULL && args->mixes == 0 &&
           address_bits % (2 * (uint64_t)MSCCLPP_DEV_PLAN_PLANE) == 0;
}

/*
 * Fills in plan->args, the kernel's arguments that do not depend on the call, and builds the image of the data that
 * they point to. `base` is the address of the image on the device.
 *
 * If image->bytes is NULL, only counts the size of the image. plan->args is filled in even then, but with invalid
 * addresses. The image ends with a copy of the arguments, so all of them are set before that.
 */
static void fill_image(mscclpp_team_plan_t *plan, const mscclpp_team_t *team, image_t *image, char *base)
{
    const mscclpp_plan_program_t *program = &plan->program;
    const mscclpp_plan_rank_t *this_rank = &plan->file->plan->ranks[team->group.oob.rank];
    const uint32_t ports = this_rank->channel_count[MSCCLPP_PLAN_PORT];
    mscclpp_dev_plan_args_t *args = &plan->args;
    uint64_t offset;

    for (int rank = 0; rank < team->group.oob.size; ++rank) {
        args->late_ranks[rank] = (uint8_t)(MSCCLPP_DEV_MAX_RANKS + rank); /* how failures name a rank on another node */
    }
    for (int i = 0; i < team->group.size; ++i) {
        args->late_ranks[team->group.members[i]] = (uint8_t)i;
    }
    args->rank = (uint32_t)team->group.oob.rank;
    args->room = plan->room.base;
    args->ports = address_in(base, append_bytes(image, plan->room.ports, ports * sizeof(*args->ports)));
    args->plan_state = address_in(base, append_bytes(image, NULL, program->block_count * sizeof(*args->plan_state)));
    args->expected = address_in(base, append_bytes(image, NULL, program->channels * sizeof(*args->expected)));
    args->barriers = address_in(base, append_bytes(image, NULL, program->barriers * sizeof(*args->barriers)));
    offset = append_bytes(image, NULL, this_rank->semaphore_count * sizeof(*args->semaphores));
    args->semaphores = address_in(base, offset);
    /* All counters begin with 0, but semaphores have been given their initial values. */
    for (uint32_t i = 0; i < this_rank->semaphore_count && image->bytes != NULL; ++i) {
        const mscclpp_dev_plan_counter_t first = {.given = this_rank->semaphores[i]};

        memcpy(image->bytes + offset + i * sizeof(first), &first, sizeof(first));
    }
    append_program(plan, team, image, base);
    /* Input and output depend on the call. Rooms of other nodes begin at NULL here: only their offsets count. */
    for (int rank = 0; rank < team->group.oob.size; ++rank) {
        args->bases[MSCCLPP_DEV_PLAN_BUFFERS * rank + MSCCLPP_DEV_PLAN_SCRATCH] =
            address_in(plan->room.peers[rank], plan->room.scratch);
    }
    args->half = plan->room.half;
    args->scratch_bytes = plan->room.in - plan->room.scratch;
    args->mixes = plan->file->mixes_packets;
    args->orders = plan->orders;
    args->brief_chunks = mscclpp_plan_program_brief_chunks(program);
    args->chunks = plan->file->chunks;
    args->alignment = plan->file->unit;
    args->width = MSCCLPP_DEV_LL16;
    args->planes = allows_planes(team, args);
    args->lasting = NULL;
    plan->lasting = address_in(base, append_bytes(image, args, sizeof(*args)));
}

uint64_t mscclpp_plans_image_bytes(const mscclpp_team_t *team, mscclpp_team_plan_t *plan)
{
    image_t image = {.bytes = NULL};

    fill_image(plan, team, &image, NULL);
    return image.size;
}

/* Counting and filling append the same parts in the same order, so the image has exactly the size that was counted. */
mscclpp_status_t mscclpp_plans_upload(mscclpp_team_t *team, mscclpp_team_plan_t *plan, char *base)
{
    image_t image = {.bytes = calloc(1, mscclpp_plans_image_bytes(team, plan) + 1)};
    mscclpp_status_t status;

    if (image.bytes == NULL) {
        return MSCCLPP_ERR_NO_MEMORY;
    }
    fill_image(plan, team, &image, base);
    status = mscclpp_runner_take_stream(&team->runner);
    if (status == MSCCLPP_OK) {
        status = team->runner.gpu->copy(team->runner.stream, base, image.bytes, image.size);
    }
    if (status == MSCCLPP_OK) {
        status = team->runner.gpu->stream_sync(team->runner.stream);
    }
    free(image.bytes);
    return status;
}
