/*
 * server/processes/state.h - the state that a supervisor passes to the program that continues its
 * work.
 *
 * The state travels as JSON in a sealed memfd. Program and successor may be of different releases,
 * older or newer, so: fields are only added; a reader ignores fields that it does not know and does
 * without fields that are missing. A change that older readers must not ignore raises "readable_by"
 * to the format that it begins. A session that is being suspended or resumed is not passed on: the
 * upgrade waits for it. Paths are not in it: sockets know theirs.
 */
#ifndef CK_SERVER_PROCESSES_STATE_H
#define CK_SERVER_PROCESSES_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "server/processes/session_info.h"
#include "server/processes/sockets.h"
#include "server/session/driver.h"

#define CK_STATE_FORMAT 1
#define CK_STATE_CALLERS 64	 /* at most */
#define CK_STATE_SAID (16 << 20) /* bytes of one, at most */

struct cks_state_worker {
	struct cks_session_info info; /* of a spare: only its pid */
	int control;		      /* -1: closed */
	int process;		      /* a pidfd, if it is no child; else 0 */
	bool serving;		      /* has a client; otherwise it is a spare */
	bool named;		      /* session is known */
	unsigned char session[16];
};

#define CK_STATE_MPS_GPUS 128
#define CK_STATE_MPS_FOLDER 80

/* A daemon of NVIDIA MPS (server/children/mps.h). */
struct cks_state_mps {
	uint32_t number;
	pid_t pid, messenger;
	struct cks_identity identity;
	char gpus[CK_STATE_MPS_GPUS], folder[CK_STATE_MPS_FOLDER];
	bool quits;   /* it was told to end */
	int64_t lost; /* in ms of CLOCK_MONOTONIC; 0: it has not ended by itself */
};

struct cks_state_fresh {
	int fd;
	int64_t deadline; /* in ms of CLOCK_MONOTONIC */
	bool answered;
};

/* A connection of the control socket or the status socket, between two commands. */
struct cks_state_caller {
	int fd, passed; /* the latter came with a command that is not there yet; -1: none */
	uint32_t user;	/* whose it is */
	bool limited;	/* to the commands for users */
	char *in, *out; /* received and not carried out; not yet sent; NULL: nothing */
	size_t in_size, out_size;
};

struct cks_state {
	char driver[8];		   /* chosen for --driver auto: cuda or emu; else empty */
	char gpus[CK_DRIVER_GPUS]; /* see cks_driver_gpus */
	int pid_file;		   /* -1: none */
	int64_t drain_by;
	struct cks_listeners listeners;	   /* read: without paths */
	struct cks_socket broker;	   /* its fd is -1: none; read: without path */
	pid_t broker_pid;		   /* 0: not running */
	int broker_process, broker_leash;  /* pidfd and connection, if it is no child; else 0 */
	struct cks_socket rendezvous;	   /* as broker */
	struct cks_socket control, status; /* the same */
	/* the control socket's connection that waits for the successor's answer; or -1 */
	int asker;
	struct cks_state_worker *workers;
	size_t worker_count;
	unsigned int numbered; /* sessions so far */
	struct cks_state_mps *mps;
	size_t mps_count;
	struct cks_state_fresh *fresh;
	size_t fresh_count;
	struct cks_state_caller *callers; /* without the asker */
	size_t caller_count;
};

/* The driver of a server with @option for --driver; as long as both live. */
const char *cks_state_driver(const struct cks_state *state, const char *option);

/* No descriptors, nothing else. */
void cks_state_init(struct cks_state *state);
/* Free its members; descriptors stay open. */
void cks_state_free(struct cks_state *state);

/* For both directions: the names of peers' kinds. */
#define CK_STATE_PEERS (CK_PEER_NETWORK + 1)
extern const char *const cks_state_peer_kinds[CK_STATE_PEERS];
/* Names are for display; JSON would refuse one in another encoding. */
void cks_state_plain(char *text);

/* The state as text, to be freed; NULL: out of memory. */
char *cks_state_print(const struct cks_state *state);
/* -EPROTO: not a state, or one that this release cannot read; then @state is empty. */
int cks_state_parse(const char *text, size_t size, struct cks_state *state);

/* --- state_fd.c */

/* A sealed memfd with the text, close-on-exec, or -errno. */
int cks_state_write(const struct cks_state *state);
/* Parse the content of such an @fd, which stays open. -EPERM: it is not sealed. */
int cks_state_read(int fd, struct cks_state *state);

/* Have all descriptors of @state survive an exec, or not. -EBADF: one is not open. */
int cks_state_inherit(const struct cks_state *state, bool on);

#endif
