/* SPDX-License-Identifier: Apache-2.0
 *
 * The ring's protocol, from the text of docs/ring.md: a second opinion beside the deterministic world, which runs the
 * rendered kernels themselves. Every access to a shared word is a step of its own; steps are sequentially consistent.
 * docs/ring_model.md says how to run it, what was explored and what it leaves out.
 *
 *   SUBMITTERS, REQUESTS  processes, and how many requests each makes, one after the other
 *   DEPTH, CQ_DEPTH       entries of the submission and of the completion queue
 *   REPEAT                the drive may post one completion twice
 *   LOSSY                 the drive may lose one completion, or come late; deadlines may strike at any time
 *   BUG_...               one rule broken: spin must find an error
 *
 * A try that fails is modelled as waiting until there is something to try: a lane that would try for ever shows as an
 * invalid end state, and a round that goes nowhere as a cycle.
 */

#ifndef SUBMITTERS
#define SUBMITTERS 2
#endif
#ifndef REQUESTS
#define REQUESTS 2
#endif
#ifndef DEPTH
#define DEPTH 2
#endif
#ifndef CQ_DEPTH
#define CQ_DEPTH 2
#endif

#define ALL (SUBMITTERS * REQUESTS)
#ifdef BUG_EXTRA_CREDIT
#define COMMANDS DEPTH
#else
#define COMMANDS (DEPTH - 1) /* rows of identifiers = commands outstanding at most */
#endif
#ifdef BUG_NO_GENERATION
#define GENERATIONS 1
#else
#define GENERATIONS 4
#endif
#if CQ_DEPTH / 2 > 1
#define CQ_RING_EVERY (CQ_DEPTH / 2)
#else
#define CQ_RING_EVERY 1
#endif

#ifdef BUG_PHASE
#define PHASE(at) 1
#else
#define PHASE(at) (1 - ((at) / CQ_DEPTH) % 2)
#endif

mtype = { none, ok, timed_out, not_run };  /* final status of a request */
mtype = { unused, waiting, quarantined };  /* command word */
mtype = { nowhere, fetched, completed, lost }; /* what the drive did with a request */

/* ---- words of a queue ---- */
short credits = 0; /* COMMANDS, once init has filled the cells */
byte ticket = 0;
byte cell_ticket[COMMANDS], cell_id[COMMANDS];
mtype command[COMMANDS] = unused;
byte command_id[COMMANDS], command_request[COMMANDS];
byte mark[DEPTH];
byte doorbell_tail = 0; bool doorbell_held = false;
byte completion_head = 0; bool completion_held = false;
byte retired = 0, cq_rung = 0;
bool unhealthy = false;
mtype status[ALL] = none;

/* ---- memory and registers that the drive sees ---- */
byte entry_id[DEPTH], entry_request[DEPTH], entry_ticket[DEPTH];
byte cq_id[CQ_DEPTH], cq_phase[CQ_DEPTH];
byte sq_register = 0; /* tail, below DEPTH, as on the wire */
byte cq_register = 0; /* entries taken in all: on the wire it is this modulo CQ_DEPTH */

/* ---- for the assertions only ---- */
byte rung = 0;          /* highest tail that was rung */
byte fetches = 0;       /* entries that the drive fetched */
byte posts = 0;         /* completions that the drive posted */
byte consumed = 0;      /* completions that reapers read */
bool published[ALL];    /* by ticket */
mtype drive[ALL] = nowhere; /* by request */
byte drive_id[ALL];

inline finish(request, how) {
    atomic {
        assert(status[request] == none); /* exactly one final status */
        status[request] = how
    }
}

/* ---- the drive: any command, in any order ---- */
#define ROOM (cq_tail - cq_register < CQ_DEPTH - 1)

inline post(r) {
    assert(cq_tail - consumed < CQ_DEPTH - 1); /* no overrun */
    cq_id[cq_tail % CQ_DEPTH] = drive_id[r];
    cq_phase[cq_tail % CQ_DEPTH] = 1 - (cq_tail / CQ_DEPTH) % 2;
    cq_tail++;
    posts++
}

#define COMPLETE(r) atomic { ROOM && drive[r] == fetched -> drive[r] = completed; post(r) }
#define AGAIN(r) atomic { may_repeat && ROOM && drive[r] == completed -> may_repeat = false; post(r) }
#define LOSE(r) atomic { may_lose && drive[r] == fetched -> drive[r] = lost; may_lose = false }

active proctype Drive() {
    byte cq_tail = 0, request;
#ifdef REPEAT
    bool may_repeat = true;
#endif
#ifdef LOSSY
    bool may_lose = true;
#endif
end:
    do
    :: atomic { fetches % DEPTH != sq_register ->
        assert(entry_ticket[fetches % DEPTH] == fetches); /* what lies there is what was meant */
        assert(published[fetches]);                       /* the doorbell did not pass it */
        request = entry_request[fetches % DEPTH];
        assert(drive[request] == nowhere);
        drive[request] = fetched;
        drive_id[request] = entry_id[fetches % DEPTH];
        fetches++;
        request = 0 }
    :: COMPLETE(0)
    :: COMPLETE(1)
#if ALL > 2
    :: COMPLETE(2)
#endif
#if ALL > 3
    :: COMPLETE(3)
#endif
#ifdef REPEAT
    :: AGAIN(0)
    :: AGAIN(1)
#if ALL > 2
    :: AGAIN(2)
#endif
#if ALL > 3
    :: AGAIN(3)
#endif
#endif
#ifdef LOSSY
    :: LOSE(0)
    :: LOSE(1)
#if ALL > 2
    :: LOSE(2)
#endif
#if ALL > 3
    :: LOSE(3)
#endif
#endif
    od
}

/* ---- doorbell: try, take marks, ring, let go, look again ---- */
inline ring_doorbell() {
    do
    :: atomic { doorbell_held ->
#ifdef BUG_TWO_LEADERS
        skip
#else
        break /* who finds the word held goes away */
#endif
       }
    :: else ->
        atomic {
            if
#ifdef BUG_TWO_LEADERS
            :: true
#else
            :: !doorbell_held
#endif
                -> doorbell_held = true; tail = doorbell_tail; old = tail; mine = true
            :: else -> mine = false
            fi
        }
        if
        :: !mine -> break
        :: else
        fi;
#ifdef BUG_PASSES_GAPS
        tail = ticket;
#else
        do
        :: mark[tail % DEPTH] == tail + 1 -> tail++
        :: else -> break
        od;
#endif
        if
        :: tail != old ->
            atomic {
                assert(tail > rung); /* strictly increasing */
                rung = tail;
                sq_register = tail % DEPTH
            }
        :: else
        fi;
        atomic { doorbell_tail = tail; doorbell_held = false }
#ifdef BUG_NO_LOOK_AGAIN
        break
#else
        if
        :: mark[tail % DEPTH] == tail + 1
        :: else -> break
        fi
#endif
    od
}

/* ---- reap: whoever sees a completion at the head ---- */
#define SEEN (cq_phase[completion_head % CQ_DEPTH] == PHASE(completion_head))

inline give_back(id_back) {
#ifdef BUG_CREDIT_FIRST
    credits++;
#endif
    cell_id[retired % COMMANDS] = (id_back + COMMANDS) % (COMMANDS * GENERATIONS);
    cell_ticket[retired % COMMANDS] = retired + COMMANDS;
    retired++;
#ifndef BUG_CREDIT_FIRST
    credits++
#endif
}

inline reap() {
    atomic {
        if
#ifdef BUG_TWO_REAPERS
        :: true
#else
        :: !completion_held && SEEN
#endif
            -> completion_held = true; head = completion_head; mine = true
        :: else -> mine = false
        fi
    }
    if
    :: mine ->
        do /* the first unbroken run */
        :: cq_phase[head % CQ_DEPTH] == PHASE(head) ->
            atomic { assert(head < posts); /* an entry of this lap */
                id = cq_id[head % CQ_DEPTH]; head++; consumed = (head > consumed -> head : consumed) }
            atomic { /* one compare-and-swap of the command word */
                row = id % COMMANDS;
                if
                :: command[row] == waiting && command_id[row] == id -> took = true;
#ifndef BUG_NOT_CLEARED
                    command[row] = unused
#endif
#ifdef BUG_LATE_BELIEVED
                :: command[row] == quarantined && command_id[row] == id -> command[row] = unused; took = true
#endif
                :: else -> took = false /* late or repeated: counted, never believed */
                fi;
                other = command_request[row]
            }
            if
            :: took ->
                assert(drive[other] == completed && drive_id[other] == id); /* its own completion */
                finish(other, ok);
                give_back(id)
            :: else
            fi
        :: else -> break
        od;
#ifndef BUG_NO_CQ_DOORBELL
        if
        :: head - cq_rung >= CQ_RING_EVERY ->
            cq_rung = head;
#ifdef BUG_CQ_DOORBELL_AHEAD
            cq_register = head + 1
#else
            cq_register = head
#endif
        :: else
        fi;
#endif
        atomic { completion_head = head; completion_held = false; head = 0 }
    :: else
    fi;
    atomic { id = 0; row = 0; took = false; other = 0; mine = false }
}

#define CAN_REAP (!completion_held && SEEN)

active [SUBMITTERS] proctype Submitter() {
    byte made = 0, request, my_ticket, my_id;
    short had;
    byte tail, old, head, id, row, other;
    bool mine, took;

    do
    :: made == REQUESTS -> break
    :: else ->
        request = (_pid - 1) * REQUESTS + made;

        /* reserve: a try; meanwhile reap for everybody */
        do
        :: unhealthy -> finish(request, not_run); break
        :: !unhealthy && CAN_REAP -> reap()
        :: !unhealthy && credits > 0 ->
            atomic { had = credits; credits-- }
            if
            :: had > 0 -> break
            :: else -> /* two takers overdrew */
#ifndef BUG_OVERDRAFT_KEPT
                credits++
#else
                skip
#endif
            fi
        od;
        if
        :: status[request] == none ->
            atomic { my_ticket = ticket; ticket++ }

            /* identify */
            atomic {
                assert(cell_ticket[my_ticket % COMMANDS] == my_ticket);
                my_id = cell_id[my_ticket % COMMANDS];
            }

            /* publish: command word, entry, mark */
            atomic {
                assert(command[my_id % COMMANDS] == unused);
                command[my_id % COMMANDS] = waiting;
                command_id[my_id % COMMANDS] = my_id;
                command_request[my_id % COMMANDS] = request
            }
#ifdef BUG_MARK_FIRST
            atomic { mark[my_ticket % DEPTH] = my_ticket + 1; published[my_ticket] = true }
#endif
            atomic {
                assert(my_ticket < DEPTH || fetches > my_ticket - DEPTH); /* not before its last user was fetched */
                entry_id[my_ticket % DEPTH] = my_id;
                entry_request[my_ticket % DEPTH] = request;
                entry_ticket[my_ticket % DEPTH] = my_ticket
            }
#ifndef BUG_MARK_FIRST
            atomic { mark[my_ticket % DEPTH] = my_ticket + 1; published[my_ticket] = true }
#endif
            ring_doorbell();

            /* watch the own record only; reap for everybody */
            do
            :: status[request] != none -> break
            :: status[request] == none && CAN_REAP -> reap()
#if defined(LOSSY) && !defined(BUG_NO_DEADLINE)
            :: status[request] == none -> /* the deadline, at any time */
                atomic {
                    if
                    :: command[my_id % COMMANDS] == waiting && command_id[my_id % COMMANDS] == my_id ->
                        command[my_id % COMMANDS] = quarantined; took = true
#ifdef BUG_DEADLINE_WINS
                    :: else -> took = true
#else
                    :: else -> took = false /* a completion was first: its status comes */
#endif
                    fi
                }
                if
                :: took ->
                    took = false;
#if !defined(BUG_NOT_MARKED) && !defined(BUG_GIVEN_BACK)
                    unhealthy = true;
#endif
                    finish(request, timed_out);
#ifdef BUG_GIVEN_BACK
                    command[my_id % COMMANDS] = unused;
                    give_back(my_id);
#endif
                    break
                :: else -> status[request] != none
                fi
#endif
            od
        :: else
        fi;
        atomic { my_ticket = 0; my_id = 0; had = 0; tail = 0; old = 0; mine = false }
        made++
    od
}

init {
    byte i;
    atomic { /* cell i holds identifier i for ticket i */
        for (i : 0 .. COMMANDS - 1) {
            cell_ticket[i] = i;
            cell_id[i] = i
        }
        i = 0;
        credits = COMMANDS
    }
}
