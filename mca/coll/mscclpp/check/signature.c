/* Signatures of calls: makes them, compares them, and describes how they differ. */
#include "mca/coll/mscclpp/check/signature.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Stands for a root or an operation that the function does not have. No rank and no operation has this number. */
#define NONE (-1000)

/* Stand for users' operations, of which ranks can compare only one property: whether they commute. */
#define OP_COMMUTES (-1)
#define OP_DOES_NOT_COMMUTE (-2)

/* The functions' names, without MPI_ and in lower case. */
static const char *const function_names[] = {
#define NAME(name_) #name_,
    MCA_COLL_MSCCLPP_BLOCKING(NAME) MCA_COLL_MSCCLPP_NONBLOCKING(NAME) MCA_COLL_MSCCLPP_PERSISTENT(NAME)
#undef NAME
};

void mca_coll_mscclpp_signature_name(uint32_t function, char *name, size_t size)
{
    if (function < sizeof(function_names) / sizeof(function_names[0])) {
        (void)snprintf(name, size, "MPI_%c%s", toupper((unsigned char)function_names[function][0]),
                       function_names[function] + 1);
    } else {
        (void)snprintf(name, size, "function %u", function);
    }
}

/*
 * The sizes for each pair of ranks, if the call has any, are stored after the structure. Only predefined operations
 * have an index that is equal on all ranks, so users' operations are all alike, but for whether they commute.
 */
mca_coll_mscclpp_signature_t *mca_coll_mscclpp_signature_new(const mca_coll_mscclpp_check_call_t *call, int peers)
{
    const size_t pairs = call->pairs != NULL ? (size_t)peers : 0;
    mca_coll_mscclpp_signature_t *signature = calloc(1, sizeof(*signature) + pairs * sizeof(signature->pair[0]));

    if (signature == NULL) {
        return NULL;
    }
    signature->function = (uint32_t)call->function;
    signature->root = call->has_root ? call->root : NONE;
    signature->op = NONE;
    signature->count = call->count;
    signature->size = call->size;
    signature->same_to = call->same_to;
    signature->pairs = (uint32_t)pairs;
    if (call->op != NULL) {
        bool commutes = ompi_op_is_commute(call->op);

        signature->op = ompi_op_is_intrinsic(call->op) ? call->op->o_f_to_c_index
                        : commutes                     ? OP_COMMUTES
                                                       : OP_DOES_NOT_COMMUTE;
        (void)snprintf(signature->op_name, sizeof(signature->op_name), "%.*s", MCA_COLL_MSCCLPP_SIGNATURE_OP - 1,
                       ompi_op_is_intrinsic(call->op) ? call->op->o_name
                       : commutes                     ? "a user's operation that commutes"
                                                      : "a user's, which does not commute");
    }
    if (pairs > 0) {
        memcpy(signature->pair, call->pairs, pairs * sizeof(signature->pair[0]));
    }
    return signature;
}

size_t mca_coll_mscclpp_signature_size(const mca_coll_mscclpp_signature_t *signature)
{
    return sizeof(*signature) + signature->pairs * sizeof(signature->pair[0]);
}

/* A value that has to be equal on all ranks. */
typedef struct {
    const char *name; /* for messages */
    int64_t (*value)(const mca_coll_mscclpp_signature_t *signature);
    void (*text)(const mca_coll_mscclpp_signature_t *signature, char *text, size_t size); /* words it for messages */
} aspect_t;

static int64_t function_value(const mca_coll_mscclpp_signature_t *signature)
{
    return (int64_t)signature->function;
}

static void function_text(const mca_coll_mscclpp_signature_t *signature, char *text, size_t size)
{
    mca_coll_mscclpp_signature_name(signature->function, text, size);
}

static int64_t root_value(const mca_coll_mscclpp_signature_t *signature)
{
    return signature->root;
}

static void root_text(const mca_coll_mscclpp_signature_t *signature, char *text, size_t size)
{
    (void)snprintf(text, size, "%d", signature->root);
}

static int64_t op_value(const mca_coll_mscclpp_signature_t *signature)
{
    return signature->op;
}

static void op_text(const mca_coll_mscclpp_signature_t *signature, char *text, size_t size)
{
    (void)snprintf(text, size, "%.*s", MCA_COLL_MSCCLPP_SIGNATURE_OP - 1, signature->op_name);
}

static int64_t count_value(const mca_coll_mscclpp_signature_t *signature)
{
    return (int64_t)signature->count;
}

static void count_text(const mca_coll_mscclpp_signature_t *signature, char *text, size_t size)
{
    (void)snprintf(text, size, "%llu", (unsigned long long)signature->count);
}

static int64_t size_value(const mca_coll_mscclpp_signature_t *signature)
{
    return (int64_t)signature->size;
}

static void size_text(const mca_coll_mscclpp_signature_t *signature, char *text, size_t size)
{
    (void)snprintf(text, size, "%llu bytes", (unsigned long long)signature->size);
}

/*
 * What is compared, in order. Only the first aspect that differs is reported: ranks that call different functions pass
 * different arguments, too, and a message about these would say nothing more.
 */
static const aspect_t aspects[] = {
    {"the call", function_value, function_text},
    {"the root", root_value, root_text},
    {"the operation", op_value, op_text},
    {"the count", count_value, count_text},
    {"the size of the type", size_value, size_text},
};
#define ASPECTS (sizeof(aspects) / sizeof(aspects[0]))

/*
 * LIST_RESERVE: bytes that a text must have left for one more rank and " and more". PHRASE_RESERVE: bytes for the words
 * around a value and the list of its ranks.
 */
#define LIST_RESERVE 24
#define PHRASE_RESERVE 16

/*
 * Writes the list of the ranks, from `first` on, that passed the same value as rank `first`. If the text has no room
 * for all of them, it ends with " and more".
 */
static void list_ranks(const aspect_t *aspect, mca_coll_mscclpp_signature_t *const *signatures, int ranks, int first,
                       char *text, size_t size)
{
    size_t used = 0;
    int shown = 0, rank;

    for (rank = first; rank < ranks; ++rank) {
        if (aspect->value(signatures[rank]) != aspect->value(signatures[first])) {
            continue;
        }
        if (used + LIST_RESERVE > size) {
            (void)snprintf(text + used, size - used, " and more");
            return;
        }
        used += (size_t)snprintf(text + used, size - used, "%s%d", 0 == shown++ ? "" : ", ", rank);
    }
}

/*
 * Writes which ranks passed which value, such as "is 10 on rank 0, 1 and 12 on rank 2". Each value is written once, at
 * the first rank that passed it. Stops when the text is full.
 */
static void describe_values(const aspect_t *aspect, mca_coll_mscclpp_signature_t *const *signatures, int ranks,
                            char *text, size_t size)
{
    char value[64], rank_list[96];
    size_t used = (size_t)snprintf(text, size, "%s is ", aspect->name);
    int rank, earlier;

    for (rank = 0; rank < ranks && used + sizeof(value) + sizeof(rank_list) + PHRASE_RESERVE < size; ++rank) {
        for (earlier = 0; earlier < rank && aspect->value(signatures[earlier]) != aspect->value(signatures[rank]);
             ++earlier) {
        }
        if (earlier == rank) {
            aspect->text(signatures[rank], value, sizeof(value));
            list_ranks(aspect, signatures, ranks, rank, rank_list, sizeof(rank_list));
            used += (size_t)snprintf(text + used, size - used, "%s%s on rank %s", 0 == rank ? "" : " and ", value,
                                     rank_list);
        }
    }
}

/* Returns true if all ranks passed the same value. */
static bool is_equal(const aspect_t *aspect, mca_coll_mscclpp_signature_t *const *signatures, int ranks)
{
    for (int rank = 1; rank < ranks; ++rank) {
        if (aspect->value(signatures[rank]) != aspect->value(signatures[0])) {
            return false;
        }
    }
    return true;
}

/*
 * Returns true if `sender`, the signature of rank `from`, sends as many bytes to rank `to` as `receiver`, the signature
 * of rank `to`, expects. Otherwise `text` names the difference. A signature without sizes sends and expects nothing.
 */
static bool pair_matches(const mca_coll_mscclpp_signature_t *sender, int from,
                         const mca_coll_mscclpp_signature_t *receiver, int to, char *text, size_t size)
{
    const uint64_t sent = (uint32_t)to < sender->pairs ? sender->pair[to].to : 0;
    const uint64_t expected = (uint32_t)from < receiver->pairs ? receiver->pair[from].from : 0;

    if (sent == expected) {
        return true;
    }
    (void)snprintf(text, size, "rank %d sends %llu bytes to rank %d, which expects %llu", from,
                   (unsigned long long)sent, to, (unsigned long long)expected);
    return false;
}

/* Returns true if the sizes of rank `from` match those of all ranks. Otherwise `text` names the first difference. */
static bool parts_match(mca_coll_mscclpp_signature_t *const *signatures, int ranks, int from, char *text, size_t size)
{
    const mca_coll_mscclpp_signature_t *first = signatures[0], *sender = signatures[from];

    for (int peer = 0; peer < ranks; ++peer) {
        if (!sender->same_to) {
            if (!pair_matches(sender, from, signatures[peer], peer, text, size)) {
                return false;
            }
        } else if (sender->pair[peer].to != first->pair[peer].to) {
            (void)snprintf(text, size, "the part of rank %d has %llu bytes on rank 0 and %llu on rank %d", peer,
                           (unsigned long long)first->pair[peer].to, (unsigned long long)sender->pair[peer].to, from);
            return false;
        }
    }
    return true;
}

/*
 * First compares the values that have to be equal on all ranks, such as the function and the root. Only if these are
 * equal can the sizes for each pair of ranks be compared. Stops at the first difference.
 */
bool mca_coll_mscclpp_signatures_match(mca_coll_mscclpp_signature_t *const *signatures, int ranks, char *text,
                                       size_t size)
{
    for (size_t i = 0; i < ASPECTS; ++i) {
        if (!is_equal(&aspects[i], signatures, ranks)) {
            describe_values(&aspects[i], signatures, ranks, text, size);
            return false;
        }
    }
    /* All ranks call the same function, so either all signatures have pairs or none has. */
    if (0 == signatures[0]->pairs) {
        return true;
    }
    for (int rank = 0; rank < ranks; ++rank) {
        if (!parts_match(signatures, ranks, rank, text, size)) {
            return false;
        }
    }
    return true;
}

/*
 * Compares the functions, the operations and, if each rank passes its own sizes, the bytes that the two ranks exchange.
 */
bool mca_coll_mscclpp_signatures_match_inter(const mca_coll_mscclpp_signature_t *mine, int rank,
                                             const mca_coll_mscclpp_signature_t *theirs, int peer, char *text,
                                             size_t size)
{
    char own_name[64], peer_name[64];

    /* Roots and counts have different meanings in the two groups, so they are not compared. */
    if (mine->function != theirs->function || mine->op != theirs->op) {
        mca_coll_mscclpp_signature_name(mine->function, own_name, sizeof(own_name));
        mca_coll_mscclpp_signature_name(theirs->function, peer_name, sizeof(peer_name));
        (void)snprintf(text, size, "rank %d calls %s %s, and rank %d of the other group %s %s", rank, own_name,
                       mine->op_name, peer, peer_name, theirs->op_name);
        return false;
    }
    if (0 == mine->pairs || mine->same_to) {
        return true;
    }
    return pair_matches(mine, rank, theirs, peer, text, size) && pair_matches(theirs, peer, mine, rank, text, size);
}
