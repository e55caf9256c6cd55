
/* An object's history, letter by letter (replay.py): the object is 2, and 1 is what branches have
 * otherwise. A window is open for steps of the collector; people act where the history says so. */
c_decl {
    \#include <stdio.h>
    static int letters[MOST][LONGEST], many;
    static char is_replayed[MOST];
    static void load(void) {
        FILE *file = fopen("words", "r");
        int at = 0;
        if (many || !file) { return; }
        while (fscanf(file, "%d", &letters[many][at]) == 1) {
            if (letters[many][at]) { at++; } else { many++; at = 0; }
        }
        fclose(file);
    }
}
short word, last;
byte place, kind;
int value, open, took;
bit acting;
byte named;     /* by a policy: 1 surely, 2 perhaps */
byte by_rule[2]; /* let go by one */
#define is_as_told (state == (value & 31))
#define state (in(2, staged_on(0)) | (in(2, staged_on(1)) << 1) | (in(2, refs) << 2) | (in(2, bit(below[0])) << 3) | (in(2, bit(below[1])) << 4))
#define is_true(n) ((n) == 1 -> in(2, plan[0]) : ((n) == 2 -> !in(2, plan[0]) : ((n) == 3 -> in(2, deleted[0]) : ((n) == 4 -> in(2, gone[0]) : ((n) == 5 -> in(2, stays[0]) : ((n) == 6 -> in(2, there) : !in(2, there)))))))
#define is_left c_expr { !is_replayed[now.word] }
inline next() {
    c_code {
        int letter = letters[now.word][now.place++];
        now.kind = letter >> 16; now.value = letter & 0xFFFF;
        if (!letter && !is_replayed[now.word]) { is_replayed[now.word] = 1; printf("replayed %d\n", now.word); }
    }
}

active proctype Trace() {
    there; /* init is over */
    atomic { !ahead[0] && !ahead[1]; c_code { load(); now.last = many - 1; } };
    do :: word < last -> word++ :: break od;
    atomic { true; next() };
    do
    :: atomic { is_left; kind == BEGIN -> age[2] = value; next() }
    :: atomic { is_left; kind == OPEN && !open -> open = value; next() }
    :: atomic { is_left; kind == CLOSE && (value || took == open) -> open = 0; took = 0; next() }
    :: atomic { is_left; kind == KILL -> open = 0; took = 0; dead[0] = 1; next() }
    :: atomic { is_left; kind == WORLD && !acting && !is_as_told -> acting = 1; acts = MOVES }
    :: atomic { is_left; kind == WORLD && is_as_told && !busy[0] && !busy[1] -> acting = 0; named = value >> 5; acts = 0; next() }
    :: atomic { is_left; kind == FOUND && is_true(value) -> next() }
    od
}
