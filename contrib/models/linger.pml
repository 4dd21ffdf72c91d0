/*
 * Lingering kernels: the host thread of a team, a thread that wants the device for another team, and kernels of one
 * block or of BLOCKS, as in mca/common/run/linger.c, mca/common/run/launch.c and device/kern/linger.h. All
 * interleavings of single accesses are searched. What weaker memory orders allow is ThreadSanitizer's to find
 * (test/host/planted_faults.sh). `check` searches this with two blocks and with three, as those behind the first one
 * may differ in how far they are, and then with one of the faults FAULT_* at a time, which has to be found.
 *
 * Sizes: BLOCKS=2 BLOCKS=3
 *
 * Blocks that form a cluster meet where these count `leavers`, and have a new relay each, which is the same here.
 *
 * Of the words of bell and relay there are two, an operand and the code, which is enough for a torn message. A third
 * one is for the lists of blocks, which only operations with lists write and wait for. In the relay, it carries the
 * operation's number, and the first block writes it last. A window may end at any moment, which also stands for the
 * word that dismisses a kernel. Peers are left out: one that does not come makes an operation that only an abort ends.
 *
 * Proven: each operation is executed once by each block that it needs, with its own words; the host never waits for
 * ever, and every kernel ends; nothing is used after it is freed; whichever kernel may be rung for is the device's
 * owner's, so that anybody can dismiss it.
 */
#ifndef BLOCKS
#define BLOCKS 2 /* of wide kernels: 2 or 3 */
#endif
#ifndef OPS
#define OPS 3 /* operations of the host thread */
#endif
#ifndef WANTS
#define WANTS (4 - BLOCKS) /* how often the other thread takes the device over, or clears it */
#endif

#define NARROW 0
#define WIDE 1
#define QUIT 2
#define LISTED 3      /* narrow, with lists in the bell */
#define WIDE_LISTED 4 /* wide, with lists in the bell */
#define IS_WIDE(code_) ((code_) == WIDE || (code_) == WIDE_LISTED)
#define HAS_LISTS(code_) ((code_) >= LISTED)
#define QUIT_ARG 99
#define ARG(n_) (10 + (n_))
#define LISTS(n_) (20 + (n_))

#define NOBODY 0
#define TEAM 1
#define OTHER 2

/* The operations: the code, and how often each block has executed them. */
byte code_of[OPS + 1];
byte served[(OPS + 1) * BLOCKS];
#define SERVED(n_, block_) served[(n_) * BLOCKS + (block_)]
byte late; /* the operation for which a peer does not come; 0: none */

/* The mailbox. A word has a number and a payload, which are written at once. */
byte bell_number[3];
byte bell_payload[3];
byte done;
byte done_apart[BLOCKS]; /* the other blocks' own words */
byte left;
bit abort;

/* The state in device memory: each block's copy of the progress, and what they share. */
byte progress[BLOCKS];
byte leavers;
byte relay_number[3];
byte relay_payload[3];

bit freed; /* mailbox and state */

/* The host. Number and owner are accessed under the lock, or alone. */
byte number;
byte owner;
byte started;
byte grid; /* blocks of the last lingering kernel */
bit team_freed;

#if BLOCKS == 2
#define ALL_APART(n_) (done_apart[1] >= (n_))
#define OTHERS_SERVED(n_, times_) (SERVED(n_, 1) == (times_))
#define SERVE_OTHERS(n_, times_) SERVED(n_, 1) = SERVED(n_, 1) + (times_)
#else
#ifdef FAULT_FIRST_OTHER_ALONE
#define ALL_APART(n_) (done_apart[1] >= (n_))
#else
#define ALL_APART(n_) (done_apart[1] >= (n_) && done_apart[2] >= (n_))
#endif
#define OTHERS_SERVED(n_, times_) (SERVED(n_, 1) == (times_) && SERVED(n_, 2) == (times_))
#define SERVE_OTHERS(n_, times_) SERVED(n_, 1) = SERVED(n_, 1) + (times_); SERVED(n_, 2) = SERVED(n_, 2) + (times_)
#endif

/* Words only grow, so it does not matter that they are read one after the other. */
#ifdef FAULT_FIRST_WORD_ALONE
#define HAS_ENDED done >= n
#else
#define HAS_ENDED done >= n && (!IS_WIDE(code_of[n]) || ALL_APART(n))
#endif

#define DISMISSABLE assert(number == 0 || owner == TEAM)

/* A block's part of an operation, unless the host gives up first. Operands are read in either case. */
inline execute(n_, code_, arg_, block_)
{
    d_step {
        assert(!freed);
        assert(arg_ == ARG(n_));
        assert(code_ == code_of[n_]);
    }
    if
    :: d_step { n_ != late -> SERVED(n_, block_)++; assert(SERVED(n_, block_) == 1) }
    :: abort
    fi
}

#if BLOCKS == 2
#define OTHERS_AT(n_) (progress[1] == (n_))
#define ADVANCE_OTHERS(n_) progress[1] = n_
#define TELL_OTHERS(n_) done_apart[1] = n_
#else
#define OTHERS_AT(n_) (progress[1] == (n_) && progress[2] == (n_))
#define ADVANCE_OTHERS(n_) progress[1] = n_; progress[2] = n_
#define TELL_OTHERS(n_) done_apart[1] = n_; done_apart[2] = n_
#endif

/*
 * The first block's end of an operation: advances its copy of the progress and, if `all_`, those of the other blocks,
 * which do not read theirs in this operation. Then tells the host.
 */
inline tell(n_, all_)
{
    d_step {
        assert(!freed && progress[0] + 1 == n_);
        progress[0] = n_;
        if
        :: all_ -> ADVANCE_OTHERS(n_)
        :: else
        fi
    }
    d_step { assert(!freed); done = n_ }
}

/*
 * A block's end. The last block to leave clears the relay for the next kernel, and tells the host that all have left.
 */
inline leave(self_, blocks_, first_)
{
    d_step {
        assert(!freed);
        leavers++;
#ifdef FAULT_LEFT_EARLY
        last = first_
#else
        last = (leavers == blocks_)
#endif
    }
    if
    :: last ->
        d_step {
            assert(!freed);
            leavers = 0;
#ifndef FAULT_RELAY_STAYS
            relay_number[0] = 0;
            relay_number[1] = 0;
            relay_number[2] = 0
#endif
        }
        d_step { assert(!freed); left = self_ }
    :: else
    fi
}

/*
 * A kernel that does not linger and executes operation `n`. Its blocks do so at once, but each of them tells the host
 * by itself.
 */
proctype plain(byte n)
{
    assert(progress[0] + 1 == n && OTHERS_AT(n - 1));
    if
    :: d_step {
        n != late ->
        SERVED(n, 0)++;
        SERVE_OTHERS(n, IS_WIDE(code_of[n]));
        assert(SERVED(n, 0) == 1 && OTHERS_SERVED(n, IS_WIDE(code_of[n])))
       }
    :: abort
    fi;
    d_step { progress[0] = n; ADVANCE_OTHERS(n) }
    if
    :: IS_WIDE(code_of[n]) -> d_step { assert(!freed); TELL_OTHERS(n) }
    :: else
    fi;
    d_step { assert(!freed); done = n }
}

/*
 * The first block of a lingering kernel, which was launched for operation `self`. Executes it, and then each operation
 * that it is rung for. It wakes the other blocks by the relay for wide operations, and to quit once its window has
 * ended.
 */
proctype first_block(byte self; byte blocks)
{
    byte n = self, code = code_of[self], arg = ARG(self), lists = LISTS(self), wide = (blocks > 1 -> self : 0);
    bit heard, last;

    do
    :: assert(!HAS_LISTS(code) || lists == LISTS(n));
        if
        :: d_step {
            code == WIDE_LISTED && n > self ->
            assert(!freed);
            relay_payload[2] = lists;
            relay_number[2] = n;
            lists = 0
           }
        :: d_step { code != WIDE_LISTED || n == self -> lists = 0 }
        fi;
        execute(n, code, arg, 0);
#ifdef FAULT_ADVANCE_ALL_AT_ONCE
        tell(n, true);
#else
        tell(n, blocks == 1 || n > self);
#endif
        n++;
        heard = 0;
        do
        :: d_step { bell_number[0] == n -> assert(!freed); arg = bell_payload[0] }
            if
            :: d_step { bell_number[1] == n -> assert(!freed); code = bell_payload[1]; heard = !HAS_LISTS(code) }
                if
                :: heard -> break
#ifdef FAULT_LISTS_UNAWAITED
                :: d_step { !heard -> lists = bell_payload[2]; heard = 1 }
                    break
#else
                :: d_step { !heard && bell_number[2] == n -> assert(!freed); lists = bell_payload[2]; heard = 1 }
                    break
                :: !heard && bell_number[2] != n
#endif
                fi
            :: bell_number[1] != n
            fi
#ifdef FAULT_QUIT_OVER_WORDS
        :: true -> break
#else
        :: done + 1 >= n && (blocks == 1 || ALL_APART(wide)) -> break
#endif
        od;
        assert(!freed);
        if
        :: blocks > 1 && (!heard || IS_WIDE(code)) ->
            d_step {
                assert(!freed);
                relay_payload[0] = (heard -> arg : QUIT_ARG);
                relay_number[0] = n - self
            }
            d_step {
                assert(!freed);
                relay_payload[1] = (heard -> code : QUIT);
                relay_number[1] = n - self
            }
            wide = n
        :: else
        fi;
        if
        :: !heard -> break
        :: else
        fi
    od;
    leave(self, blocks, 1)
}

#ifdef FAULT_LISTS_STALE
#define LISTS_RELAYED(n_) (relay_number[2] != 0)
#else
#define LISTS_RELAYED(n_) (relay_number[2] == (n_))
#endif

/*
 * Another block of a lingering kernel: executes operation `self`, and then those in the relay, until it has to quit. It
 * finds the lists of operation `self` where the host has put them before the launch.
 */
proctype other_block(byte self; byte block)
{
    byte n, code = code_of[self], arg = ARG(self), first, place = 0, next;
    bit last;

    first = progress[block] + 1; /* as it finds its epoch */
    do
#ifdef FAULT_STATE_READ
    :: n = progress[block] + 1;
#else
    :: n = first + place;
#endif
        if
        :: d_step {
            code == WIDE_LISTED && place != 0 && LISTS_RELAYED(n) ->
            assert(!freed);
            assert(relay_payload[2] == LISTS(n))
           }
        :: code != WIDE_LISTED || place == 0
        fi;
        execute(n, code, arg, block);
        d_step {
            assert(!freed);
            if
            :: place == 0 -> progress[block] = n
            :: else
            fi
        }
        d_step { assert(!freed); done_apart[block] = n }
        d_step { relay_number[0] != place -> assert(!freed); arg = relay_payload[0]; next = relay_number[0] }
        d_step {
            relay_number[1] != place ->
            assert(!freed);
            assert(relay_number[1] == next);
            code = relay_payload[1]
        }
        place = next;
        if
        :: code == QUIT -> break
        :: else
        fi
    od;
    leave(self, BLOCKS, 0)
}

/* Gives the device to another owner. No kernel can be rung for until the owner has launched one. */
inline hand_over(next_)
{
    atomic { number = 0; owner = next_; DISMISSABLE }
}

/*
 * Launches a kernel for operation `n_`: a plain one, or one that lingers, once the last lingering one has left. If that
 * takes too long, a plain one. A launch may fail, and then the team ends.
 */
inline launch(n_)
{
    if
    :: hand_over(NOBODY); run plain(n_)
    :: hand_over(TEAM);
        if
#ifdef FAULT_NO_AWAIT_LEFT
        :: true ->
#else
        :: left >= started ->
#endif
            bell_number[0] = n_;
            if
            :: grid = (IS_WIDE(code_of[n_]) -> BLOCKS : 1);
                started = n_;
                atomic {
                    run first_block(n_, grid);
                    if
                    :: grid > 1 ->
                        run other_block(n_, 1);
#if BLOCKS > 2
                        run other_block(n_, 2)
#endif
                    :: else
                    fi
                }
                atomic {
                    number = n_;
#ifndef FAULT_SETTLE_BLINDLY
                    if
                    :: owner != TEAM -> number = 0
                    :: else
                    fi;
#endif
                    DISMISSABLE
                }
            :: /* the launch fails, and so does the team */
#ifndef FAULT_OWNER_STAYS
                hand_over(NOBODY);
#endif
                goto end
            fi
        :: left < started -> /* it takes too long */
            hand_over(NOBODY);
            run plain(n_)
        fi
    fi
}

/*
 * The team's host thread. For each operation it rings the kernel that lingers, or launches one, and waits for the end.
 * If the kernel has left before it heard the bell, it starts anew. If a peer is late, it may give up, and the team
 * ends. At the end it frees what kernels use.
 */
active proctype host()
{
    byte n = 1, seen, rung;
    bit gives_up;

    do
    :: n > OPS -> break
    :: else ->
        if
        :: code_of[n] = NARROW
        :: code_of[n] = WIDE
        :: code_of[n] = LISTED
        :: code_of[n] = WIDE_LISTED
        fi;
        if
        :: gives_up = 0
        :: gives_up = 1
        :: gives_up = 1; late = n
        fi;
start:
        rung = 0;
        seen = number;
        if
        :: seen != 0 && left < seen && (grid > 1 || !IS_WIDE(code_of[n])) ->
            rung = seen;
            d_step { bell_payload[0] = ARG(n); bell_number[0] = n }
            d_step { bell_payload[1] = code_of[n]; bell_number[1] = n }
            if
            :: d_step { HAS_LISTS(code_of[n]) -> bell_payload[2] = LISTS(n); bell_number[2] = n }
            :: !HAS_LISTS(code_of[n])
            fi
        :: else -> launch(n)
        fi;
        do
        :: HAS_ENDED -> break
        :: rung != 0 && left >= rung ->
            if
#ifdef FAULT_MISSED_BLINDLY
            :: true ->
#else
            :: !(HAS_ENDED) ->
#endif
                if
                :: abort -> goto end
                :: else -> goto start
                fi
            :: HAS_ENDED -> break
            fi
        :: gives_up && !abort -> abort = 1
        od;
        if
        :: abort -> break
        :: else
        fi;
        assert(SERVED(n, 0) == 1 && OTHERS_SERVED(n, IS_WIDE(code_of[n])));
        n++
    od;
end:
#ifdef FAULT_OWNER_STAYS
    if
    :: started == 0
    :: else -> hand_over((owner == TEAM -> NOBODY : owner))
    fi;
#else
    hand_over((owner == TEAM -> NOBODY : owner));
#endif
#ifndef FAULT_FREED_EARLY
    left >= started;
#endif
    freed = 1;
    team_freed = 1
}

/* The other thread, which takes the device over for another team, or clears it, at any moment. */
active proctype other()
{
    byte wants = 0;

    do
    :: wants == WANTS -> break
    :: wants < WANTS ->
        wants++;
        atomic {
            if
            :: owner == TEAM -> assert(!team_freed); number = 0
            :: else
            fi;
            if
            :: owner = OTHER
            :: owner = NOBODY
            fi;
            DISMISSABLE
        }
    od
}
