/*
 * client/wire/quick_exit.c - see quick_exit.h.
 *
 * A server on another host cannot tell such an end from a cut connection, and would keep the
 * session. The thread that ends the process may be anywhere, in a signal handler or in malloc(3),
 * so each session's keeper says goodbye for it.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "client/wire/quick_exit.h"
#include "client/link/reconnect.h"
#include "client/link/session_list.h"

#define LEAVE_MS 300
#define STEP_US 200

/* NULL: there is none of this number. It makes none, and takes no lock. */
static struct ckc_client *session(unsigned int index)
{
	return index == 0 ? ckc_client_default : ckc_sessions.list[index];
}

static bool are_gone(void)
{
	for (unsigned int i = 0; i < CK_SERVERS_MAX; i++) {
		if (session(i) && !ckc_reconnect_left(session(i)))
			return false;
	}
	return true;
}

void ckc_leave(void)
{
	const struct timespec step = {.tv_nsec = STEP_US * 1000L};

	for (unsigned int i = 0; i < CK_SERVERS_MAX; i++) {
		if (session(i))
			ckc_reconnect_leave(session(i));
	}
	for (int us = 0; us < LEAVE_MS * 1000 && !are_gone(); us += STEP_US)
		nanosleep(&step, NULL);
}

#ifdef CKC_LEAVE_CALLS

/* The effects of exit_group(2), and other libraries that have put their functions behind ours are
 * passed over. */
static _Noreturn void end(int status)
{
	ckc_leave();
	for (;;)
		syscall(SYS_exit_group, status);
}

CK_EXPORT _Noreturn void _exit(int status)
{
	end(status);
}

CK_EXPORT _Noreturn void _Exit(int status)
{
	end(status);
}

#endif

/* Its handlers run in reverse order: those of the program come first if this one is there before
 * main(). */
__attribute__((constructor)) static void prepare(void)
{
	at_quick_exit(ckc_leave);
}
