/* How lakegc collects, for Spin (`make model`): people who write to a repository, a store, time, and
 * collectors that list, read, decide, wait, look again and delete, and may be killed at each step.
 *
 * A repository has one path, so a commit is the object that it has there. A set of objects is a
 * number, a bit an object. Counted ticks stop where more of them change nothing, so a run may last
 * for ever. A line with "guard NAME" is a guard: run.py takes out one after the other, and an
 * invariant must break. "step NAME" is where replay.py has it wait for an event of a real run.
 * docs/decisions/model.md says what is left out. run.py defines
 *   OBJECTS, COLLECTORS; RUNS marks of each; ACTS of people, DO: a bit for each kind in World;
 *   KILLS; FAULTS: readings that lose rows without an error; FAILS: objects that the store neither
 *   deletes nor mentions; PARTS: looks are renewed in parts; INDEX; FAR: clocks differ by too much;
 *   HOOKS: something is staged over what a commit under way has sealed; LOOK: ticks for which a look
 *   is good; MARKED: collectors begin with a mark of all that is unreachable, and nobody writes;
 *   ENDS: time goes on only if somebody waits for it */
#define GRACE 1   /* ticks for which an upload may wait for its first reference */
#define SKEW 1    /* ticks by which clocks may differ */
#define OLD (GRACE + SKEW + 1)
#define TTL 2     /* ticks for which a lease is good */
#define FLIGHT 1  /* ticks for which a request is under way at the most */
#define bit(o) ((1 << (o)) >> 1)
#define in(o, set) ((bit(o) & (set)) != 0)
#define alike(x, y) ((x) != 0 && (y) != 0 && (x) % 2 == (y) % 2) /* of the same content */

/* The repository. */
byte there, written;          /* objects in the store, and those that were ever written */
byte age[4];                  /* ticks since each was written */
byte commits, kept;           /* objects of all commits; of those that rules retain */
byte tag, hold;               /* what a tag, a hold keeps */
byte staged[2], sealed[2], below[2], head[2]; /* of each branch; below: compacted */
bit live[2], busy[2];         /* busy: a commit is under way */
bit churned;                  /* a branch was deleted since a scan began */
byte acts = ACTS, faults = FAULTS, fails = FAILS, kills = KILLS;
#define top(b) (staged[b] -> staged[b] : (sealed[b] -> sealed[b] : below[b]))
#define hides(b) (alike(top(b), head[b]))
#define shown(b) ((live[b] && !hides(b)) -> bit(top(b)) : 0) /* by a diff or a scan */
#define read(b) (top(b) -> top(b) : head[b])       /* what the branch answers from */
#define staged_on(b) (live[b] -> (bit(staged[b]) | bit(below[b]) | ((busy[b] || !staged[b]) -> bit(sealed[b]) : 0)) : 0)
#define heads ((live[0] -> bit(head[0]) : 0) | (live[1] -> bit(head[1]) : 0))
#define refs (heads | kept | bit(tag) | bit(hold))
#define reachable (refs | staged_on(0) | staged_on(1))

/* The collectors. Plan, journal and lease are in the store, and outlive them. */
byte ahead[2];                /* ticks by which its clock is ahead of the server's */
byte runs[2], plan[2], meant[2], deleted[2], gone[2], stays[2], failed[2];
bit marked[2], passed[2], dead[2];
byte dead_for[2], beat_age[2], timer[2]; /* ticks since it was killed, renewed its lease, looked */
byte old[2], seen[2], alive[2];          /* what is old, seen in this reading, seen alive by this sweep */
byte fly[2], fly_age[2], landed[2];      /* a request under way, and what the store says it did */
bit is_answered[2], waits[2];
byte holder;                  /* of the lease: 1 + its number, 0 for nobody */
bit owns[2];                  /* no epoch began after its own */
bit same_epoch[2], same_place[2];        /* the log of the lease is as it read it */
byte indexed, ranges, damaged; /* closed slices; commits that the index has; one of them is wrong */
byte changed, saved;          /* written over since the cutoff; what was retained in an earlier reading */

/* What only the invariants know. */
byte must[2];                 /* reachable ever since the reading began */
byte due[2];                  /* old and unreachable ever since the mark began */
byte young[2];                /* could still be linked when the mark began */
byte mine[2];                 /* deleted by its requests */
byte look_age[2];
bit in_order[2];              /* its tables were made in their order */
hidden byte nothing_reachable_is_planned, nothing_reachable_is_deleted, nothing_young_is_planned,
    nothing_young_is_deleted, no_look_is_old, one_collects, report_is_the_store, plan_is_proved,
    garbage_goes;
#define is(o, test) ((in(o, there) && (test)) -> bit(o) : 0)
#define youngest (is(1, age[1] <= GRACE) | is(2, age[2] <= GRACE) | is(3, age[3] <= GRACE))
#define oldest (is(1, age[1] >= OLD) | is(2, age[2] >= OLD) | is(3, age[3] >= OLD))
#define older(than) (is(1, age[1] + ahead[me] > than) | is(2, age[2] + ahead[me] > than) | is(3, age[3] + ahead[me] > than))

/* A person refers to what had other references. These may go before that can be seen, in the middle
 * of a reading. The page about safety says so, and it is no invariant. */
inline by_hand(o) { must[0] = must[0] & ~bit(o); must[1] = must[1] & ~bit(o) }
inline onto(o) { /* the same, unless it goes from refs to refs, which one reading has together */
    if :: in(o, refs) :: else -> by_hand(o) fi
}

/* A commit ends: what was sealed, over what was compacted, becomes the head. Of two entries with the
 * same content the older one stays. */
inline conclude(b) {
    kept = kept | bit(head[b]);
    if :: sealed[b] && !alike(sealed[b], (below[b] -> below[b] : head[b])) -> head[b] = sealed[b]
    :: else -> head[b] = (below[b] -> below[b] : head[b]) fi;
    commits = commits | bit(head[b]); sealed[b] = 0; below[b] = 0; busy[b] = 0
}
inline drop(b) { staged[b] = 0; sealed[b] = 0; below[b] = 0 }
#define may(n) (((DO) >> (n)) & 1)

proctype World() {
    byte b, o, x;
end:do
    :: atomic { acts > 0 -> acts--;
        if :: b = 0 :: b = 1 fi; select(o : 1 .. OBJECTS);
        if
        :: may(0) && !in(o, written) -> /* an upload begins */
            there = there | bit(o); written = written | bit(o); age[o] = 0
        :: may(1) && live[b] && in(o, written) && staged[b] != o && (HOOKS || !busy[b]) -> /* a link */
            staged[b] = o; by_hand(o)
        :: may(2) && live[b] && !busy[b] && top(b) -> drop(b) /* a reset */
        :: may(3) && live[b] && !busy[b] && top(b) -> /* a commit begins */
            sealed[b] = (staged[b] -> staged[b] : sealed[b]); staged[b] = 0; busy[b] = 1
        :: may(3) && busy[b] -> conclude(b)
        :: may(3) && busy[b] && sealed[b] -> busy[b] = 0 /* a hook refuses it */
        :: may(4) && live[0] && live[1] && !busy[b] && !shown(b) && head[b] != head[1 - b] -> /* a merge */
            kept = kept | bit(head[b]); head[b] = head[1 - b]; drop(b)
        :: may(5) && live[b] && !busy[b] && in(o, commits) && head[b] != o -> /* a hard reset */
            onto(o); if :: hides(b) -> x = top(b); by_hand(x); x = 0 :: else fi; head[b] = o
        :: may(6) && live[1] -> live[1] = 0; busy[1] = 0; drop(1); head[1] = 0; churned = 1 /* deleted, */
        :: may(6) && !live[1] && in(o, commits) -> onto(o); live[1] = 1; head[1] = o /* made again */
        :: may(7) && in(o, commits) && tag != o -> onto(o); tag = o
        :: may(7) && tag -> tag = 0
        :: may(8) && in(o, kept) -> kept = kept & ~bit(o) /* a commit expires */
        :: may(9) && in(o, there) && age[o] == OLD -> /* written over in place */
            age[o] = 0; changed = changed | bit(o); due[0] = due[0] & ~bit(o); due[1] = due[1] & ~bit(o)
        :: may(10) && in(o, written) && hold != o -> hold = o; by_hand(o)
        :: may(11) && live[b] && !busy[b] && (staged[b] || sealed[b]) && !hides(b) -> /* compaction */
            if :: !alike(top(b), below[b]) -> below[b] = top(b) :: else fi;
            staged[b] = 0; sealed[b] = 0
        :: else -> acts++
        fi;
        must[0] = must[0] & (reachable); due[0] = due[0] & there & ~(reachable);
        must[1] = must[1] & (reachable); due[1] = due[1] & there & ~(reachable);
        b = 0; o = 0
    }
    od }
#define grow(x, most) x = ((x) < (most) -> (x) + 1 : (x))

proctype Time() {
    byte o;
end:do
    :: d_step {
        !(fly[0] && fly_age[0] >= FLIGHT) && !(fly[1] && fly_age[1] >= FLIGHT) && (!ENDS || waits[0]) ->
        for (o : 1 .. OBJECTS) { grow(age[o], OLD) };
        for (o : 0 .. 1) {
            grow(beat_age[o], TTL + 2 * SKEW); grow(timer[o], LOOK); grow(look_age[o], LOOK + 1);
            grow(dead_for[o], FLIGHT + 1); fly_age[o] = (fly[o] -> fly_age[o] + 1 : 0)
        };
        o = 0
    }
    od }

proctype Killer() {
end:do
    :: atomic { kills > 0 && !dead[0] && runs[0] < RUNS + marked[0] -> kills--; dead[0] = 1 }
    :: atomic { kills > 0 && !dead[1] && runs[1] < RUNS + marked[1] -> kills--; dead[1] = 1 }
    od }

/* The store carries a request out. It may leave out an object, and not mention it. */
proctype Store(byte i) {
    byte o, x;
end:do
    :: atomic { fly[i] -> /* step LANDS of fly[i] */ x = fly[i];
        if :: true
        :: fails > 0 -> fails--; select(o : 1 .. OBJECTS); x = x & ~bit(o)
        fi;
        assert(nothing_reachable_is_deleted || !(x & must[i]));
        assert(no_look_is_old || look_age[i] <= LOOK);
        assert(one_collects || holder == i + 1);
        mine[i] = mine[i] | (x & there); there = there & ~x;
        landed[i] = x; is_answered[i] = 1; fly[i] = 0; fly_age[i] = 0; o = 0; x = 0
    }
    od }

/* The diff of a branch has everything, unless a fault took its rows. */
inline diff_of(b) {
    if :: seen[me] = seen[me] | (((names >> b) & 1) -> shown(b) : 0) :: faults > 0 -> faults-- fi
}
inline scan() { /* one call over all branches, in two halves */
    d_step { /* step SCAN */ churned = 0; got = shown(0) };
    atomic { /* step SCAN */
        if :: got = (churned -> 0 : got | shown(1)) :: !churned && faults > 0 -> faults--; got = 0 fi;
        seen[me] = seen[me] | got; got = 0; churned = 0
    }}

inline read_staged(which) {
    d_step {
        names = live[0];
        names = names | (live[1] << 1); /* guard HIDDEN_BRANCHES */
        names = names & (which)
    };
#if FAULTS
    scan();
    scan(); /* guard SECOND_SCAN */
#endif
    atomic { /* step DIFF_0 */ diff_of(0) }; /* guard DIFFS */
    atomic { /* step DIFF_1 */ diff_of(1) }; /* guard DIFF_OF_EACH_BRANCH */
    d_step { /* step BELOW of bit(below[0]) | bit(below[1]) */
        seen[me] = seen[me] | bit(below[0]) | bit(below[1]); /* guard COMPACTED */
        names = 0
    }}

/* What commits and people keep, in one reading. */
inline read_refs() {
    atomic { /* step REFS */
        if :: true ->
            found = 1; got = 0; was[0] = head[0]; was[1] = head[1];
            got = got | heads; /* guard HEADS */
            got = got | kept; /* guard RULES */
            got = got | bit(tag); /* guard TAGS */
            got = got | bit(hold) /* guard HOLDS */
        :: faults > 0 -> faults--; found = 0 /* as a repository that was deleted just now answers */
        fi;
        if :: !found -> goto refused :: else fi; /* guard NO_COMMIT_REFUSES */
        lost = damaged & ranges;
        lost = 0; /* guard RANGES_HAVE_A_DIGEST */
        known = saved; saved = INDEX * got;
        known = 0; /* guard ONLY_FACTS_ARE_KEPT */
        if :: known -> got = known; was[0] = 0; was[1] = 0 :: else fi;
        seen[me] = seen[me] | (got & ~lost); got = 0; found = 0; lost = 0; known = 0
    }}

/* What a branch answers from at a path whose entry in the head, as it was read, has that content. */
inline ask(b) { d_step { seen[me] = seen[me] | ((live[b] && alike(was[b], read(b))) -> bit(read(b)) : 0) } }

/* A reading of all that may refer to an object, by a mark and by each look. */
inline read_all(which) {
    if :: !mixed -> read_staged(which); done = 1 :: else fi; /* guard STAGED_BEFORE_COMMITTED */
    read_refs();
    if :: !done -> read_staged(which) :: else fi;
    done = 0; mixed = 0;
    if :: which == 3 -> /* a part does not ask again */
        ask(0); ask(1); /* guard ASK_BRANCHES */
    :: else fi;
    was[0] = 0; was[1] = 0
}

inline forget() { /* what was only in memory */
    old[me] = 0; seen[me] = 0; alive[me] = 0; names = 0; got = 0; found = 0; lot = 0; tried = 0;
    limit = 0; listed = 0; ripe = 0; cut = 0; done = 0; mixed = 0; wait = 0; quiet = 0; lost = 0; known = 0; looked = 0;
    part = 3; owns[me] = 0; same_epoch[me] = 0; same_place[me] = 0; waits[me] = 0; timer[me] = LOOK;
    was[0] = 0; was[1] = 0
}

inline mark() {
    atomic { /* step CUTOFF */
        must[me] = reachable; young[me] = youngest; due[me] = oldest & ~(reachable); in_order[me] = 1;
        limit = limit + GRACE; /* guard MIN_AGE */
        limit = limit + SKEW; /* guard CUTOFF_LESS_SKEW */
        if :: ahead[me] > SKEW -> goto refused :: else fi; /* guard CLOCKS_AGREE */
        cut = 1; old[me] = older(limit) /* guard CUTOFF_FIRST */
    };
    atomic { /* step LIST */ /* the listing; somebody may make a table again, out of order */
#if INDEX
        changed = 0; ripe = old[me]; listed = indexed & ~deleted[me]; old[me] = old[me] | listed;
#endif
        listed = listed | there;
        if :: may(12) -> mixed = 1; in_order[me] = 0 :: true fi
    };
    read_all(3);
    d_step { /* step VERDICT */ /* the decision, too */
        if :: !cut -> old[me] = older(limit) :: else fi;
        plan[me] = listed & old[me] & ~seen[me];
#if INDEX
        plan[me] = plan[me] & there & ripe & ~changed; /* guard SEEN_BEFORE_IT_IS_NAMED */
        indexed = listed & old[me]; ranges = 7;
#endif
        passed[me] = 1;
        passed[me] = in_order[me]; /* guard CHAIN_OF_TABLES */
        assert(nothing_reachable_is_planned || !passed[me] || !(plan[me] & must[me]));
        assert(nothing_young_is_planned || !(plan[me] & young[me]));
        runs[me]++; marked[me] = 1; mine[me] = 0; must[me] = 0; young[me] = 0;
        meant[me] = 0; deleted[me] = 0; gone[me] = 0; stays[me] = 0; failed[me] = 0; look_age[me] = LOOK + 1;
        forget()
    }}

/* The lease: a log in which each place is written once. Who takes it has read the log before. */
inline take_lease() {
    skip;
again:atomic { /* step LEASE */
        waits[me] = 1; wait = TTL;
        wait = wait + SKEW; /* guard LEASE_PLUS_SKEW */
        quiet = 1;
        quiet = dead_for[me] > FLIGHT; /* guard LONGEST_REQUEST */
        (!holder || (holder == me + 1 && quiet) || (holder && beat_age[holder - 1] + ahead[me] >= wait + ahead[holder - 1])); /* guard LEASE */
        same_epoch[me] = 1; same_place[me] = 1; wait = 0; quiet = 0; waits[me] = 0
    };
    atomic { /* step TAKEN */ /* both may have read the same log */
        if :: !same_epoch[me] -> goto again :: else fi; /* guard CONDITION_OF_A_PUT */
        if :: !same_place[me] -> goto again :: else fi; /* guard TAKING_OVER_ENDS_THE_LOG */
        assert(one_collects || (!fly[0] && !fly[1]));
        same_epoch[0] = 0; same_epoch[1] = 0; same_place[me] = 0; owns[0] = 0; owns[1] = 0;
        holder = me + 1; owns[me] = 1; beat_age[me] = 0
    }}
inline next_place() { /* of its own log: who read an older one does not see it */
    same_place[0] = same_place[0] & (1 - same_epoch[0]); same_place[1] = same_place[1] & (1 - same_epoch[1])
}
inline look(which) {
    d_step {
        must[me] = (which == 3 -> reachable : must[me] | refs | (which == 1 -> shown(0) & ~staged_on(1) : shown(1) & ~staged_on(0)));
        look_age[me] = 0
    };
    if :: MARKED -> atomic { read_all(which) } :: !MARKED -> read_all(which) fi;
    d_step {
        seen[me] = seen[me] | alive[me]; /* guard ALIVE_STAYS */
        alive[me] = seen[me]; seen[me] = 0
    }}
#define left (plan[me] & ~(deleted[me] | gone[me] | stays[me] | tried))

inline sweep() {
    if :: !passed[me] -> goto refused :: else fi; /* guard VERDICT */
    take_lease();
    do
    :: !left -> break
    :: else ->
        if :: timer[me] >= LOOK -> timer[me] = 0;
            if :: !looked -> looked = PARTS :: looked -> part = 1 :: looked -> part = 2 fi;
            look(part); /* guard LOOK_AGAIN */
            part = 3
        :: else fi;
        atomic { /* step BEAT */ /* a heartbeat; then a lot, and what of it needs no request */
            if :: !owns[me] -> goto refused :: else fi; /* guard BEAT */
            next_place(); beat_age[me] = 0;
            lot = left; if :: true :: lot & 4 -> lot = 4 fi;
            deleted[me] = deleted[me] | (lot & ~there & meant[me]);
            gone[me] = gone[me] | (lot & ~there & ~meant[me]);
            lot = lot & there; got = alive[me] | youngest; stays[me] = stays[me] | (lot & got);
            lot = lot & ~got /* guard KEPT_TRAVELS */
        };
        /* step INTENT of lot */
        meant[me] = meant[me] | lot; /* guard INTENT_FIRST */
        atomic { /* step REQUEST of lot */
            lot = lot & there & ~(youngest); /* guard RECHECK */
            if :: timer[me] >= LOOK -> lot = 0 :: else fi; /* guard LOOKS_END */
            if :: beat_age[me] >= TTL - FLIGHT -> lot = 0 :: else fi; /* guard LEASES_END */
            assert(nothing_young_is_deleted || !(lot & youngest));
            assert(plan_is_proved || !lot || in_order[me]);
            fly[me] = lot; is_answered[me] = 0; landed[me] = 0
        };
        if :: lot -> atomic {
            is_answered[me] -> /* step OUTCOME of lot */ is_answered[me] = 0; got = lot;
            got = got & landed[me]; /* guard NOT_MENTIONED_IS_NOT_DELETED */
            deleted[me] = deleted[me] | got; failed[me] = failed[me] | (lot & ~got);
            tried = tried | (lot & ~got); landed[me] = 0; got = 0; lot = 0
        }
        :: else fi
    od;
    atomic { /* step REPORT */ /* the report, from the journal; and the end of the lease */
        failed[me] = failed[me] & ~(deleted[me] | gone[me] | stays[me]);
        assert(report_is_the_store || (deleted[me] | gone[me] | stays[me] | failed[me]) == plan[me]);
        assert(report_is_the_store || !((deleted[me] | gone[me]) & there));
        assert(report_is_the_store || !((gone[me] | stays[me] | failed[me]) & mine[me]));
        assert(garbage_goes || !(due[me] & there & ~failed[me]));
        if :: owns[me] -> holder = 0; next_place() :: else fi;
        marked[me] = 0; due[me] = 0; must[me] = 0; look_age[me] = LOOK + 1; forget()
    }}

proctype Collector(byte me) {
    byte names, got, lot, tried, limit, listed, ripe, wait, lost, known, part = 3, was[2];
    bit found, cut, done, mixed, quiet, looked;
begin: {
        do
        :: !marked[me] && runs[me] < RUNS -> mark()
        :: marked[me] -> sweep()
        :: !marked[me] && runs[me] >= RUNS -> goto over
        od;
refused: /* by an error; a plan that did not pass is left, any other is swept again */
        atomic {
            if :: !marked[me] -> runs[me]++ :: else -> marked[me] = passed[me] fi;
            forget(); goto begin
        }
    } unless {
        atomic { dead[me] -> dead[me] = 0; dead_for[me] = 0; forget(); goto begin }
    }
over:skip
}

init {
    byte i, j;
    atomic {
        /* 1 is committed on both branches. 2 is staged, in an expired commit, or nowhere. 3 has the
         * content of 1: it is staged and hides, it is nowhere, just written, or not there yet. */
        live[0] = 1; live[1] = 1; head[0] = 1; head[1] = 1;
        there = 3; written = 3; commits = 1; age[1] = OLD; age[2] = OLD;
        if :: !MARKED -> staged[1] = 2 :: !MARKED -> commits = 3 :: true fi;
        if :: true :: OBJECTS > 2 -> there = 7; written = 7;
            if :: age[3] = OLD; staged[0] = 3 :: age[3] = OLD :: age[3] = 0 fi
        fi;
        for (i : 0 .. 1) {
            dead_for[i] = FLIGHT + 1; beat_age[i] = TTL + 2 * SKEW; timer[i] = LOOK; look_age[i] = LOOK + 1;
            select(j : 0 .. SKEW + FAR); ahead[i] = j
        };
        if :: INDEX -> damaged = 1 :: true fi;
        for (i : 0 .. MARKED * COLLECTORS - 1) {
            plan[i] = there & ~(reachable); marked[i] = 1; passed[i] = 1; in_order[i] = 1; runs[i] = RUNS
        };
        i = 0; j = 0; run World(); run Time(); run Store(0); run Collector(0);
        if :: COLLECTORS > 1 -> run Store(1); run Collector(1) :: else fi;
        if :: KILLS -> run Killer() :: else fi
    }}

ltl everything_ends { <> (runs[0] == RUNS && !marked[0]) }
