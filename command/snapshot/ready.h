/*
 * command/snapshot/ready.h - when the program is to be written: `cricket snapshot --at WHEN`.
 */
#ifndef CK_COMMAND_SNAPSHOT_READY_H
#define CK_COMMAND_SNAPSHOT_READY_H

#include <stdbool.h>

struct ckx_ready {
	enum { CKX_READY_SIGNAL, CKX_READY_FILE, CKX_READY_HTTP } kind;
	const char *path; /* of the file; of the URL, or empty */
	char host[256], port[8];
};

/* @when: NULL, "signal", "file:PATH" or "http://HOST[:PORT][/PATH]". -EINVAL, printed. */
int ckx_ready_parse(const char *when, struct ckx_ready *ready);

/* Is it? @signalled: SIGUSR1 has come. Waits a second at most. */
bool ckx_ready_now(const struct ckx_ready *ready, bool signalled);

#endif
