/*
 * command/servers/choose.h - choose servers and GPUs for a program, and wait until there are some.
 */
#ifndef CK_COMMAND_SERVERS_CHOOSE_H
#define CK_COMMAND_SERVERS_CHOOSE_H

#include <stdint.h>

#include "command/config/server.h"

struct ckx_wish {
	unsigned int gpus;
	uint64_t memory;       /* bytes that each must have free */
	const char *text;      /* the memory as the user wrote it; NULL: none is wanted */
	uint64_t wait_seconds; /* 0: not at all */
};

struct ckx_choice {
	char *address;		  /* for REMOTE_GPU_ADDRESS; the caller frees it */
	struct ckx_server server; /* the first one, for its token and its TLS */
	uint64_t wait_seconds;	  /* that are left, for CRICKET_WAIT */
};

/* Choose among the servers of @server's address. -EBUSY: nothing fits in time; -errno. Errors are
 * printed. */
int ckx_choose(const struct ckx_server *server, const struct ckx_wish *wish,
	       struct ckx_choice *choice);

/* Has the one server of @server's address so many GPUs? -EBUSY: it has not; printed. 0: it has, or
 * does not say. */
int ckx_choose_check(const struct ckx_server *server, const struct ckx_wish *wish);

#endif
