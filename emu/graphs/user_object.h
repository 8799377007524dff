/*
 * emu/graphs/user_object.h - functions of graphs for user objects; see user_object.c.
 */
#ifndef CK_EMU_GRAPHS_USER_OBJECT_H
#define CK_EMU_GRAPHS_USER_OBJECT_H

#include "emu/core/emu.h"

/* References of one graph to one user object. */
struct ck_emu_keep {
	struct ck_emu_keep *next;
	struct user_object *object;
	uint64_t count;
};

/* With the graphs' lock held: give all back; take the same again, false when out of memory. */
void ck_emu_keeps_drop(struct ck_emu_keep **keeps);
bool ck_emu_keeps_copy(struct ck_emu_keep **to, const struct ck_emu_keep *from);
/* Without that lock: call the destructors of objects whose last reference has gone. */
void ck_emu_user_objects_run(void);

#endif
