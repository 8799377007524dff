/*
 * util/process/machine.c - see machine.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/hash.h"
#include "util/process/machine.h"
#include "util/process/proc_file.h"

#define PIDFD_OPEN 434 /* of all architectures; old headers lack it */
#define BOOT 36	       /* characters of a UUID */

struct facts {
	char purpose[24], boot[BOOT + 4];
	uint64_t device, inode; /* of the namespace of process ids */
};

static bool read_boot(struct facts *facts)
{
	struct ck_proc_file f;
	ssize_t n;

	if (ck_proc_file_open(&f, "/proc/sys/kernel/random/boot_id") < 0)
		return false;
	n = ck_proc_file_read(&f, facts->boot, BOOT, 0);
	ck_proc_file_close(&f);
	return n == BOOT;
}

static void make_id(const struct facts *facts, unsigned char id[CK_MACHINE_ID])
{
	struct ck_hash hash;

	ck_hash(facts, sizeof(*facts), &hash);
	memcpy(id, hash.bytes, CK_MACHINE_ID);
}

bool ck_machine_id(unsigned char id[CK_MACHINE_ID])
{
	struct facts facts = {.purpose = "cricket machine"};
	struct stat pids;

	memset(id, 0, CK_MACHINE_ID);
	if (!read_boot(&facts) || stat("/proc/self/ns/pid", &pids) < 0)
		return false;
	facts.device = pids.st_dev;
	facts.inode = pids.st_ino;
	make_id(&facts, id);
	return true;
}

bool ck_machine_host(unsigned char id[CK_MACHINE_ID])
{
	struct facts facts = {.purpose = "cricket host"};

	memset(id, 0, CK_MACHINE_ID);
	if (!read_boot(&facts))
		return false;
	make_id(&facts, id);
	return true;
}

int ck_machine_watch(pid_t pid)
{
	long fd = syscall(PIDFD_OPEN, pid, 0);

	return fd < 0 ? -errno : (int)fd;
}

bool ck_machine_ended(pid_t pid)
{
	struct pollfd p = {.fd = ck_machine_watch(pid), .events = POLLIN};
	bool ended;

	if (p.fd < 0)
		return p.fd == -ESRCH || (p.fd == -ENOSYS && kill(pid, 0) < 0 && errno == ESRCH);
	ended = poll(&p, 1, 0) == 1;
	close(p.fd);
	return ended;
}
