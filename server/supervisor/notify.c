/*
 * server/supervisor/notify.c - reports the server's state to systemd (sd_notify(3)).
 *
 * The protocol is one datagram to the socket in NOTIFY_SOCKET, and is documented as stable: a
 * library for it would be one more thing to install.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/supervisor/host.h"
#include "util/log.h"
#include "util/address/unixsock.h"
#include "util/until.h"

CK_LOG_DEFINE("server");

void cks_notify(const char *state)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un address;
	int size = path ? ck_unix_address(path, &address) : -1, fd;

	if (size < 0)
		return;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || sendto(fd, state, strlen(state), MSG_DONTWAIT | MSG_NOSIGNAL,
			     (struct sockaddr *)&address, (socklen_t)size) < 0)
		ck_warn("NOTIFY_SOCKET %s: %m", path);
	if (fd >= 0)
		close(fd);
}

/* The number in a variable; 0: it has none. */
static int64_t number_of(const char *name)
{
	const char *text = getenv(name);
	char *end;
	long long value;

	if (!text || !*text)
		return 0;
	errno = 0;
	value = strtoll(text, &end, 10);
	return errno || *end || value < 0 ? 0 : value;
}

/* The variables are inherited, so they may be meant for another process. */
void cks_watchdog_init(struct cks_watchdog *w)
{
	int64_t pid = number_of("WATCHDOG_PID"), limit = number_of("WATCHDOG_USEC") / 1000;

	*w = (struct cks_watchdog){.every = 0};
	if (getenv("NOTIFY_SOCKET") && limit > 0 && (pid == 0 || pid == getpid()))
		w->every = limit > 1 ? limit / 2 : 1;
}

int64_t cks_watchdog_run(struct cks_watchdog *w)
{
	int64_t now = ck_now_ms();

	if (w->every == 0)
		return -1;
	if (now >= w->next) {
		cks_notify("WATCHDOG=1");
		w->next = now + w->every;
	}
	return w->next - now;
}
