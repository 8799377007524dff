/*
 * server/door/gpu_probes.c - the processes that look at the GPUs: started, asked, heard, ended; see
 * offers.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/door/offers.h"
#include "server/processes/child.h"
#include "util/log.h"
#include "util/until.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

#define FRESH_MS 100 /* how long a look is good after its end, as it may take longer itself */
#define SILENCE_MS                                                                                 \
	8000 /* until one that does not answer is killed: a GPU that wakes takes seconds */

static int launch_scout(struct cks_gpu_probe *s, const char *driver)
{
	char *arguments[] = {(char *)"cricket-rpc-server", (char *)CK_GPU_PROBE_ARGUMENT,
			     (char *)(uintptr_t)driver, NULL};
	int pair[2], ret = 0;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	s->pid = fork();
	if (s->pid == 0) {
		if (s->gpus[0])
			setenv("CUDA_VISIBLE_DEVICES", s->gpus, 1);
		cks_child_execute(arguments, pair[1], -1);
	}
	if (s->pid < 0)
		ret = -errno;
	close(pair[1]);
	if (ret == 0) {
		s->control = pair[0];
		return 0;
	}
	s->pid = 0;
	close(pair[0]);
	return ret;
}

static void hang_up(struct cks_gpu_probe *s)
{
	if (s->pid && s->control >= 0)
		close(s->control);
	s->control = -1;
	s->asked = 0;
}

/* Take its output. */
static void receive_note(struct cks_gpu_probe *s, int64_t now)
{
	struct cks_gpu_probe_note note;
	ssize_t n = recv(s->control, &note, sizeof(note), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		if (s->asked && now - s->asked > SILENCE_MS) {
			ck_warn("the process that reads the state of the GPUs does not respond: "
				"killed");
			kill(s->pid, SIGKILL);
			hang_up(s);
		}
		return;
	}
	if (n != (ssize_t)sizeof(note) || note.count > CK_GPU_PROBE_GPUS) {
		hang_up(s); /* it has ended */
		return;
	}
	note.why[sizeof(note.why) - 1] = '\0';
	for (uint32_t i = 0; i < note.count; i++)
		note.gpus[i].name[sizeof(note.gpus[i].name) - 1] = '\0';
	s->note = note;
	s->looked = s->asked; /* it is at least as recent as the question */
	s->heard = now;
	s->asked = 0;
}

/* The slot for @gpus: the one that has it, else a free one. NULL: all are for others, of which the
 * idlest one ends. */
static struct cks_gpu_probe *slot_for(struct cks_offers *o, const char *gpus)
{
	struct cks_gpu_probe *idlest = NULL;

	for (size_t i = 0; i < CK_GPU_PROBES; i++) {
		if (o->list[i].pid && strcmp(o->list[i].gpus, gpus) == 0)
			return &o->list[i];
	}
	for (size_t i = 0; i < CK_GPU_PROBES; i++) {
		struct cks_gpu_probe *s = &o->list[i];

		if (!s->pid) {
			*s = (struct cks_gpu_probe){.control = -1};
			strncpy(s->gpus, gpus, sizeof(s->gpus) - 1);
			return s;
		}
		if (!s->asked && s->control >= 0 && (!idlest || s->used < idlest->used))
			idlest = s;
	}
	if (idlest)
		hang_up(idlest);
	return NULL;
}

int cks_gpu_probes_look(struct cks_offers *o, const char *gpus, int64_t since,
			const struct cks_gpu_probe_note **note)
{
	struct cks_gpu_probe *s = slot_for(o, gpus);
	int64_t now = ck_now_ms();
	int ret;

	if (!s || (s->pid && s->control < 0))
		return -EAGAIN; /* until it is reaped */
	ret = s->pid ? 0 : launch_scout(s, o->driver);
	if (ret < 0)
		return ret;
	s->used = now;
	receive_note(s, now);
	if (s->looked && s->looked >= since && now - s->heard <= FRESH_MS) {
		*note = &s->note;
		return 0;
	}
	if (!s->asked && s->control >= 0) {
		if (send(s->control, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
			hang_up(s);
		else
			s->asked = now;
	}
	return -EAGAIN;
}

bool cks_offers_ended(struct cks_offers *o, pid_t pid)
{
	for (size_t i = 0; i < CK_GPU_PROBES; i++) {
		if (o->list[i].pid != pid)
			continue;
		hang_up(&o->list[i]);
		o->list[i].pid = 0;
		return true;
	}
	return false;
}
