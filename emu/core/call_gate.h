/*
 * emu/core/call_gate.h - counts the threads inside of calls of the driver; a locked process
 * (checkpoint.c) lets none in.
 *
 * The exported functions (gen/emu_calls.c) go through it; callbacks of the application, which may
 * call nothing, do not.
 */
#ifndef CK_EMU_CORE_CALL_GATE_H
#define CK_EMU_CORE_CALL_GATE_H

#include <stdbool.h>

struct timespec;

/* Come in, waiting while it is closed; calls inside of calls count once. */
void ck_emu_call_gate_enter(void);
void ck_emu_call_gate_leave(void);

/*
 * Close it, and wait until no thread is inside, at the latest until @until (CLOCK_MONOTONIC; NULL:
 * without a limit). False: somebody still was, and it is open again.
 */
bool ck_emu_call_gate_close(const struct timespec *until);
void ck_emu_call_gate_open(void);

#endif
