/*
 * emu/core/mps.c - see emu/core/mps.h.
 */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "emu/core/mps.h"
#include "util/env.h"
#include "util/log.h"
#include "util/util.h"

CK_LOG_DEFINE("emu");

static atomic_int connection = -1; /* to the daemon; -1: none */
static atomic_bool lost;
static int percent = 100;

static int connect_daemon(const char *folder)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd;

	if (snprintf(address.sun_path, sizeof(address.sun_path), "%s/control", folder) >=
	    (int)sizeof(address.sun_path))
		return -1;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* It answers "ok" or "later". */
static bool ask_daemon(int fd)
{
	char line[32], answer[8] = "";
	int size = snprintf(line, sizeof(line), "client %d\n", (int)getpid());

	return send(fd, line, (size_t)size, MSG_NOSIGNAL) == size &&
	       recv(fd, answer, sizeof(answer) - 1, 0) > 0 && strncmp(answer, "ok", 2) == 0;
}

bool ck_emu_mps_join(void)
{
	const char *folder = secure_getenv("CUDA_MPS_PIPE_DIRECTORY");
	const char *part = secure_getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");
	int fd = folder ? connect_daemon(folder) : -1;
	uint64_t number;

	if (fd < 0)
		return true;
	if (!ask_daemon(fd)) {
		close(fd);
		return false;
	}
	if (part && ck_env_number(part, &number) == 0 && number >= 1 && number <= 100)
		percent = (int)number;
	atomic_store(&connection, fd);
	ck_debug("under MPS, with %d %% of the multiprocessors", percent);
	return true;
}

bool ck_emu_mps_lost(void)
{
	int fd = atomic_load_explicit(&connection, memory_order_relaxed);
	char byte;

	if (fd < 0)
		return false;
	if (!atomic_load(&lost) && recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
		atomic_store(&lost, true);
	return atomic_load(&lost);
}

void ck_emu_mps_fault(void)
{
	int fd = atomic_load_explicit(&connection, memory_order_relaxed);

	if (fd >= 0 && !atomic_load(&lost))
		send(fd, "fault\n", 6, MSG_DONTWAIT | MSG_NOSIGNAL);
}

int ck_emu_mps_part(int count)
{
	return ck_max(count * percent / 100, 1);
}
