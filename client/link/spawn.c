/*
 * client/link/spawn.c - start threads of the client.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>

#include "client/link/client.h"

int ckc_thread_start(void *(*run)(void *), void *arg)
{
	sigset_t all, was;
	pthread_t thread;
	int ret;

	sigfillset(&all);
	sigdelset(&all, SIGSEGV); /* host functions may touch managed memory, */
	sigdelset(&all, SIGBUS);  /* or that of a lost server */
	pthread_sigmask(SIG_SETMASK, &all, &was);
	ret = pthread_create(&thread, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	if (ret == 0)
		pthread_detach(thread);
	return -ret;
}
