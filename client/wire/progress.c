/*
 * client/wire/progress.c - see progress.h.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/wire/progress.h"
#include "client/link/stats.h"
#include "util/env.h"
#include "util/log.h"
#include "util/until.h"

CK_LOG_DEFINE("client");

#define EVERY_NS 5000000000u
#define PAUSE_NS 1000000000u /* a longer pause ends the sending */

static struct ckc_progress own;

bool ckc_progress_note(struct ckc_progress *p, size_t bytes, uint64_t began, uint64_t now,
		       char text[CK_PROGRESS_TEXT])
{
	uint64_t last = atomic_exchange(&p->last, now);
	double sent, seconds;

	if (last == 0 || (began > last && began - last > PAUSE_NS)) {
		p->begun = p->said = began;
		p->bytes = p->kept = 0;
	}
	sent = (double)(atomic_fetch_add(&p->bytes, bytes) + bytes);
	if (now - p->said < EVERY_NS)
		return false;
	p->said = now;
	seconds = (double)(now - p->begun) / 1e9;
	snprintf(text, CK_PROGRESS_TEXT,
		 "cricket: sending to the GPU server: %.1f MB in %.0f s, %.1f MB/s\n", sent / 1e6,
		 seconds, sent / 1e6 / seconds);
	if (p->kept > 0)
		snprintf(text + strlen(text) - 1, CK_PROGRESS_TEXT - strlen(text) + 1,
			 "; it had %.1f MB more\n", (double)p->kept / 1e6);
	return true;
}

static void print_progress(size_t bytes, uint64_t began)
{
	char text[CK_PROGRESS_TEXT];
	int fd = (int)ck_env_long("CRICKET_LOG_FD");

	if (!ckc_progress_note(&own, bytes, began, ck_now_ns(), text) ||
	    !ck_log_enabled(CK_LOG_ERROR) || !isatty(fd))
		return;
	if (dprintf(fd, "%s", text) < 0)
		ck_debug("the terminal has gone: %m");
}

void ckc_progress_sent(size_t bytes, uint64_t began)
{
	print_progress(bytes, began);
}

void ckc_progress_stored(size_t bytes, uint64_t began)
{
	own.kept += bytes;
	print_progress(0, began);
}
