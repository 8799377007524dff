/*
 * server/children/mps.c - see mps.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cuda/mps.h"
#include "server/children/mps.h"
#include "server/children/mps_folder.h"
#include "util/env.h"
#include "util/log.h"
#include "util/until.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

#define CK_READY_MS 10000 /* for a daemon to listen */
#define CK_LOOK_MS 100	  /* between two looks whether it does */
#define CK_LINGER_MS 5000 /* after its last session */
#define CK_QUIT_MS 3000	  /* for a daemon to end when it was told to */
#define CK_STOP_STEP_MS 10
#define CK_ROOM_MIB 1024 /* above the quota, for the driver's own memory */

/* --- processes */

/* In a child: become the control program with @argument (NULL: none) and @input. */
static _Noreturn void run_control(const struct cks_mps_daemon *d, const char *argument, int input)
{
	int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t none;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setsid(); /* a terminal's signals are for the supervisor */
	for (int i = 1; i <= SIGRTMAX; i++)
		signal(i, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setenv("CUDA_MPS_PIPE_DIRECTORY", d->folder, 1);
	setenv("CUDA_MPS_LOG_DIRECTORY", d->folder, 1);
	/* the numbers in a list count within what the daemon sees, so it must see all; UUIDs name a
	 * GPU anywhere */
	if (strncmp(d->gpus, "GPU-", 4) == 0 || strncmp(d->gpus, "MIG-", 4) == 0)
		setenv("CUDA_VISIBLE_DEVICES", d->gpus, 1);
	else
		unsetenv("CUDA_VISIBLE_DEVICES");
	if (dup2(input < 0 ? nothing : input, 0) < 0 || dup2(nothing, 1) < 0 ||
	    dup2(nothing, 2) < 0)
		_exit(126);
	execlp(CK_MPS_CONTROL, CK_MPS_CONTROL, argument, (char *)NULL);
	_exit(127);
}

static int start_daemon(struct cks_mps_daemon *d)
{
	d->pid = fork();
	if (d->pid == 0)
		run_control(d, "-f", -1); /* in the foreground: it stays a child */
	if (d->pid < 0) {
		d->pid = 0;
		return -errno;
	}
	d->ready_by = ck_now_ms() + CK_READY_MS;
	ck_info("NVIDIA MPS for %s: the daemon %d starts in %s", d->identity.name, (int)d->pid,
		d->folder);
	return 0;
}

/* Tell it to quit. If it does not, it is killed at quit_by. */
static void send_quit(struct cks_mps_daemon *d)
{
	static const char quit[] = "quit\n";
	int words[2];

	d->quit_by = ck_now_ms() + CK_QUIT_MS;
	if (pipe2(words, O_CLOEXEC) < 0)
		return;
	if (write(words[1], quit, sizeof(quit) - 1) == (ssize_t)sizeof(quit) - 1)
		d->messenger = fork();
	if (d->messenger == 0)
		run_control(d, NULL, words[0]);
	d->messenger = ck_max(d->messenger, 0);
	close(words[0]);
	close(words[1]);
}

static void kill_daemon(struct cks_mps_daemon *d)
{
	if (d->messenger > 0)
		kill(d->messenger, SIGKILL);
	if (d->pid > 0)
		kill(d->pid, SIGKILL);
}

/* --- the table */

int cks_mps_take(struct cks_mps *m, const struct cks_identity *identity, const char *gpus,
		 struct cks_mps_daemon **out)
{
	struct cks_mps_daemon *d = m->first;
	char path[PATH_MAX];
	int ret;

	while (d && (!d->pid || d->quit_by || strcmp(d->gpus, gpus) != 0 ||
		     !ck_hash_equal(&d->identity.key, &identity->key)))
		d = d->next;
	*out = d;
	if (d)
		return 0;
	if (!ck_env_find_program(CK_MPS_CONTROL, path, sizeof(path)))
		return -ENOENT;
	d = calloc(1, sizeof(*d));
	if (!d)
		return -ENOMEM;
	d->identity = *identity;
	snprintf(d->gpus, sizeof(d->gpus), "%s", gpus);
	ret = cks_mps_folder_make(&m->numbered, d->folder, sizeof(d->folder));
	d->number = m->numbered;
	if (ret == 0)
		ret = start_daemon(d);
	if (ret < 0) {
		ck_err("NVIDIA MPS for %s: %s: %s", identity->name, d->folder, strerror(-ret));
		rmdir(d->folder);
		free(d);
		return ret;
	}
	d->next = m->first;
	m->first = d;
	*out = d;
	return 0;
}

int cks_mps_adopt(struct cks_mps *m, const struct cks_mps_daemon *saved)
{
	struct cks_mps_daemon *d = malloc(sizeof(*d));

	if (!d)
		return -ENOMEM;
	*d = *saved;
	d->ready_by = d->pid ? ck_now_ms() + CK_READY_MS : 0; /* it may be starting */
	d->next = m->first;
	m->first = d;
	m->numbered = ck_max(m->numbered, d->number);
	return 0;
}

/* The driver's own bound is above the quota, which the worker keeps: it holds for memory that the
 * driver takes by itself. */
static void bound_memory(const struct cks_terms *terms, unsigned int count)
{
	char text[32 * CK_TERMS_GPUS] = "";
	size_t n = 0;

	for (unsigned int i = 0; terms->memory > 0 && i < count && n + 32 < sizeof(text); i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%u=%lluM", i ? "," : "", i,
				      (unsigned long long)(terms->memory >> 20) + CK_ROOM_MIB);
	if (n > 0)
		setenv("CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", text, 1);
}

void cks_mps_enter(const struct cks_mps_daemon *d, const struct cks_terms *terms, unsigned int sm,
		   unsigned int count)
{
	char percent[16];

	setenv("CUDA_MPS_PIPE_DIRECTORY", d->folder, 1);
	setenv("CUDA_MPS_LOG_DIRECTORY", d->folder, 1);
	if (sm == 0 || (terms->sm > 0 && terms->sm < sm))
		sm = terms->sm;
	if (sm > 0) {
		snprintf(percent, sizeof(percent), "%u", sm);
		setenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", percent, 1);
	}
	bound_memory(terms, count);
}

/* --- the end of a daemon */

/* The last line of its log; "": it has none. */
static void read_last_line(const struct cks_mps_daemon *d, char *out, size_t size)
{
	char path[CK_MPS_PATH + 16];
	FILE *f;

	out[0] = '\0';
	snprintf(path, sizeof(path), "%s/control.log", d->folder);
	f = fopen(path, "re");
	while (f && fgets(out, (int)size, f))
		;
	if (f)
		fclose(f);
	out[strcspn(out, "\n")] = '\0';
}

static void report_end(const struct cks_mps_daemon *d, int status)
{
	char line[200], how[64];

	read_last_line(d, line, sizeof(line));
	if (WIFSIGNALED(status))
		snprintf(how, sizeof(how), "signal %d", WTERMSIG(status));
	else
		snprintf(how, sizeof(how), "status %d", WEXITSTATUS(status));
	ck_err("NVIDIA MPS for %s: the daemon %d has %s (%s): its sessions end%s%s",
	       d->identity.name, (int)d->pid, d->ready_by ? "not started" : "ended", how,
	       line[0] ? "; the last line of its log: " : "", line);
}

bool cks_mps_ended(struct cks_mps *m, pid_t pid, int status, struct cks_mps_daemon **lost)
{
	struct cks_mps_daemon *d = m->first;

	*lost = NULL;
	while (d && d->pid != pid && d->messenger != pid)
		d = d->next;
	if (!d || pid == 0)
		return false;
	if (d->pid != pid) {
		d->messenger = 0;
		return true;
	}
	if (!d->quit_by) {
		report_end(d, status);
		d->lost = ck_now_ms();
		*lost = d;
	}
	d->pid = 0;
	ck_cuda_mps_kill(d->folder); /* its server */
	cks_mps_folder_remove(d->folder);
	return true;
}

static void forget_daemon(struct cks_mps *m, struct cks_mps_daemon *d)
{
	struct cks_mps_daemon **at = &m->first;

	while (*at != d)
		at = &(*at)->next;
	*at = d->next;
	free(d);
}

/* It starts: does it listen by now? */
static int64_t await_daemon(struct cks_mps_daemon *d, int64_t now)
{
	if (ck_cuda_mps_listens(d->folder)) {
		d->ready_by = 0;
		return INT64_MAX;
	}
	if (now < d->ready_by)
		return now + CK_LOOK_MS;
	ck_err("NVIDIA MPS for %s: the daemon %d does not listen after %d s: killed",
	       d->identity.name, (int)d->pid, CK_READY_MS / 1000);
	kill_daemon(d);
	return now + CK_READY_MS;
}

int64_t cks_mps_tend(struct cks_mps *m, struct cks_mps_daemon *d, size_t sessions, bool *exists)
{
	int64_t now = ck_now_ms();

	*exists = d->pid || d->messenger || sessions;
	if (!*exists) {
		forget_daemon(m, d);
		return INT64_MAX;
	}
	if (!d->pid)
		return INT64_MAX;
	if (d->quit_by) {
		if (now >= d->quit_by)
			kill_daemon(d);
		return ck_max(d->quit_by, now + CK_LOOK_MS);
	}
	if (sessions > 0)
		d->idle = 0;
	else if (!d->idle)
		d->idle = now;
	if (d->idle && now >= d->idle + CK_LINGER_MS) {
		send_quit(d);
		return d->quit_by;
	}
	return ck_min(d->ready_by ? await_daemon(d, now) : INT64_MAX,
		      d->idle ? d->idle + CK_LINGER_MS : INT64_MAX);
}

/* Forget those that have ended; false: none is left. */
static bool reap_daemons(struct cks_mps *m)
{
	struct cks_mps_daemon *d = m->first, *lost;
	bool gone;

	while (d) {
		gone = !d->pid || waitpid(d->pid, NULL, WNOHANG) != 0;
		if (d->messenger && waitpid(d->messenger, NULL, WNOHANG) != 0)
			d->messenger = 0;
		if (gone && d->pid)
			cks_mps_ended(m, d->pid, 0, &lost);
		if (gone && !d->messenger) {
			forget_daemon(m, d);
			d = m->first;
			continue;
		}
		d = d->next;
	}
	return m->first != NULL;
}

static bool reap_for(struct cks_mps *m, int most_ms)
{
	const struct timespec step = {.tv_nsec = CK_STOP_STEP_MS * 1000000L};
	bool left;

	for (int ms = 0; (left = reap_daemons(m)) && ms < most_ms; ms += CK_STOP_STEP_MS)
		nanosleep(&step, NULL);
	return left;
}

void cks_mps_stop(struct cks_mps *m)
{
	for (struct cks_mps_daemon *d = m->first; d; d = d->next) {
		if (d->pid && !d->quit_by)
			send_quit(d);
	}
	if (!reap_for(m, CK_QUIT_MS))
		return;
	for (struct cks_mps_daemon *d = m->first; d; d = d->next)
		kill_daemon(d);
	reap_for(m, CK_QUIT_MS);
	while (m->first)
		forget_daemon(m, m->first);
}
