/* Model of the memory account of src/guest/ledger on one device: owners are killed between any two shared-memory steps,
 * several reapers pause arbitrarily long (a killed one pauses forever), and slots pass to a next owner.
 *
 * A step accesses one shared word, like a load or store of account.cpp and slot.cpp; both halves of the account word
 * are read separately. Checked in every state: the driver's real total never exceeds the limit, and if no slot is in
 * use the account is zero.
 *
 * -DBREAK=n makes one order wrong, and each must be found: 1 no help before the swap, 2 a claim stores sequence before
 * settled, 3 a reaper does not check again that the slot is dead, 4 the intent is stored after the swap,
 * 5 held is written over the word in force, 6 a reaper does not check if its step was already done.
 */
#ifndef BREAK
#define BREAK 0
#endif
#ifndef SLOTS
#define SLOTS 2
#endif
#ifndef REAPERS
#define REAPERS 2
#endif
#ifndef OPS
#define OPS 2
#endif
#ifndef KILLS
#define KILLS 2
#endif
#ifndef LIVES
#define LIVES 2
#endif
#define LIMIT 2
#define ZERO 4 /* deltas and the account are stored plus 4, because a byte is unsigned */

mtype = { FREE, LIVE, DEAD };

byte used = ZERO, last_slot, last_seq;
byte delta[SLOTS], seq[SLOTS], settled[SLOTS], done[SLOTS], held[SLOTS * 2];
mtype kind[SLOTS];
byte generation[SLOTS];
byte truth[SLOTS];
bit victim[SLOTS];
byte kills, owners;

inline raise_done(slot, number) {
  do
  :: seen = done[slot];
     if
     :: seen >= number -> break
     :: else ->
        atomic { if :: done[slot] == seen -> done[slot] = number; break :: else fi }
     fi
  od;
  seen = 0
}

inline help_last(me) {
#if BREAK != 1
  if
  :: w_slot != me -> raise_done(w_slot, w_seq)
  :: else
  fi
#else
  skip
#endif
}

proctype owner(byte me) {
  byte life, k, q, n, w_slot, w_seq, w_used, seen, ops;
  bit ok;
  do
  :: life < LIVES ->
     life++;
     atomic { kind[me] == FREE -> kind[me] = LIVE; generation[me]++ };
     {
       d_step { w_slot = last_slot; w_seq = last_seq };
       q = seq[me];
       d_step { if :: settled[me] > q -> q = settled[me] :: else fi };
       d_step { if :: done[me] > q -> q = done[me] :: else fi; if :: w_slot == me && w_seq > q -> q = w_seq :: else fi };
       held[me * 2] = 0;
       held[me * 2 + 1] = 0;
#if BREAK == 2
       seq[me] = q;
       settled[me] = q;
#else
       settled[me] = q;
       seq[me] = q;
#endif
       atomic { ops = 0; q = 0; w_slot = 0; w_seq = 0 };
       do
       :: ops < OPS ->
          ops++;
          if
          :: truth[me] == 0 -> n = ZERO + 1
          :: truth[me] == 0 -> n = ZERO + 2
          :: truth[me] > 0 -> d_step { n = ZERO - truth[me]; truth[me] = 0 }
          fi;
          k = settled[me] + 1;
#if BREAK != 4
          delta[me] = n;
          seq[me] = k;
#endif
          ok = 0;
          do
          :: d_step { w_slot = last_slot; w_seq = last_seq };
             w_used = used;
             if
             :: n > ZERO && w_used + n > LIMIT + 2 * ZERO -> break
             :: else ->
                help_last(me);
                atomic {
                  if
                  :: used == w_used && last_slot == w_slot && last_seq == w_seq ->
                     used = w_used + n - ZERO; last_slot = me; last_seq = k; ok = 1; break
                  :: else
                  fi
                }
             fi
          od;
          atomic { w_slot = 0; w_seq = 0; w_used = 0 };
          if
          :: ok ->
#if BREAK == 4
             delta[me] = n;
             seq[me] = k;
#endif
#if BREAK == 5
             held[me * 2] = held[me * 2] + n - ZERO;
             settled[me] = k;
#else
             held[me * 2 + (k & 1)] = held[me * 2 + ((k - 1) & 1)] + n - ZERO;
             settled[me] = k;
#endif
             atomic {
               if
               :: n > ZERO -> truth[me] = n - ZERO; assert(truth[0] + truth[1] <= LIMIT)
               :: else
               fi
             }
          :: else
          fi;
          atomic { k = 0; n = 0; ok = 0 }
       :: else -> break
       od
     } unless { victim[me] };
     atomic { /* killed, or left in good order: from here on only reapers write */
       kind[me] = DEAD; truth[me] = 0; victim[me] = 0;
       k = 0; q = 0; n = 0; w_slot = 0; w_seq = 0; w_used = 0; seen = 0; ops = 0; ok = 0
     }
  :: else -> break
  od;
  owners--
}

proctype killer() {
  do
  :: atomic { kills < KILLS && kind[0] == LIVE && !victim[0] -> victim[0] = 1; truth[0] = 0; kills++ }
  :: atomic { kills < KILLS && kind[1] == LIVE && !victim[1] -> victim[1] = 1; truth[1] = 0; kills++ }
  :: break
  od
}

proctype reaper() {
  byte p, g, k, s, h, d, r, w_slot, w_seq, w_used, seen;
  bit yes;
  do
  :: owners == 0 && kind[0] == FREE && kind[1] == FREE -> break
  :: atomic {
       if
       :: kind[0] == DEAD -> p = 0
       :: kind[1] == DEAD -> p = 1
       fi;
       g = generation[p]
     };
     k = seq[p];
     s = settled[p];
     h = held[p * 2 + (s & 1)];
     d = delta[p];
#if BREAK != 3
     if
     :: kind[p] == DEAD && generation[p] == g
     :: else -> goto again
     fi;
#endif
     if
     :: k == s + 1 ->
        d_step { w_slot = last_slot; w_seq = last_seq };
        yes = (w_slot == p && w_seq >= k);
        d_step { if :: yes || done[p] >= k -> h = h + d - ZERO :: else fi; yes = 0 }
     :: else
     fi;
     r = (k > s -> k : s) + 1;
     atomic { k = 0; s = 0; d = 0 };
     do
     :: d_step { w_slot = last_slot; w_seq = last_seq };
        w_used = used;
#if BREAK != 6
        d_step { yes = (last_slot == p && last_seq >= r) };
        d_step { yes = yes || done[p] >= r };
        if :: yes -> break :: else fi;
#endif
        help_last(p);
        atomic {
          if
          :: used == w_used && last_slot == w_slot && last_seq == w_seq ->
             assert(w_used >= h);
             used = w_used - h; last_slot = p; last_seq = r; break
          :: else
          fi
        }
     od;
     atomic {
       if
       :: kind[p] == DEAD && generation[p] == g -> kind[p] = FREE
       :: else
       fi;
       assert(!(kind[0] == FREE && kind[1] == FREE) || used == ZERO)
     };
again:
     atomic { p = 0; g = 0; k = 0; s = 0; h = 0; d = 0; r = 0; w_slot = 0; w_seq = 0; w_used = 0; yes = 0 }
  od
}

init {
  byte i;
  atomic {
    kind[0] = FREE; kind[1] = FREE;
    owners = SLOTS;
    run owner(0); run owner(1);
    run killer();
    i = 0;
    do :: i < REAPERS -> run reaper(); i++ :: else -> break od
  }
}
