/*
 * rpc/transport/companion.c - connections through a program that this process starts; see rpc/companion.h. The channels are those
 * of unix.c.
 */
#include <errno.h>
#include <string.h>

#include "rpc/companion.h"
#include "rpc/transport/transport.h"

struct wish {
	struct ck_chan **chans;
	unsigned int count;
};

static int dial_unix(const char *path, int timeout_ms, void *closure)
{
	struct wish *w = closure;

	return ck_transport_unix.dial(path, timeout_ms, w->chans, w->count);
}

static int companion_dial(const char *where, int timeout_ms, struct ck_chan **chans,
			  unsigned int count)
{
	struct wish w = {chans, count};

	return ck_companion_dial(where, timeout_ms, dial_unix, &w);
}

static int companion_listen(const char *where)
{
	(void)where;
	return -EINVAL;
}

const struct ck_transport_ops ck_transport_companion = {
	.name = "companion",
	.dial = companion_dial,
	.listen = companion_listen,
};
