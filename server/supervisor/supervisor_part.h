/*
 * server/supervisor/supervisor_part.h - the supervisor's parts, for supervisor.c, startup.c and
 * upgrade_state.c alone.
 */
#ifndef CK_SERVER_SUPERVISOR_SUPERVISOR_PART_H
#define CK_SERVER_SUPERVISOR_SUPERVISOR_PART_H

#include "server/children/gpu_time.h"
#include "server/children/spare_workers.h"
#include "server/control/control.h"
#include "server/life/drain.h"
#include "server/life/rendezvous.h"
#include "server/life/suspend.h"
#include "server/life/upgrade.h"
#include "server/processes/sockets.h"
#include "server/rules/accounts.h"
#include "server/rules/audit.h"
#include "server/rules/uids.h"
#include "server/session/driver.h"
#include "server/supervisor/host.h"

struct supervisor {
	const struct cks_options *options;
	struct cks_listeners listeners;
	int signals;
	bool childless;	   /* no child has ended since the last look */
	int reserve;	   /* a descriptor to close when none are left */
	int pid_file;	   /* -1: none */
	int64_t paused;	   /* do not accept before this time */
	int64_t deadlines; /* when to look at them again */
	struct cks_drain drain;
	struct cks_watchdog watchdog;
	struct cks_audit *audit;       /* NULL: none */
	struct cks_accounts *accounts; /* NULL: there is no policy */
	struct cks_uids *uids;	       /* NULL: workers stay the server's user */
	struct cks_workers *workers;
	struct cks_spare_workers spares;
	struct cks_new_connection_list *fresh;
	struct cks_broker *broker;
	struct cks_control *control;
	struct cks_suspender *suspender;
	struct cks_gpu_time gauge;
	struct cks_rendezvous rendezvous;
	struct cks_helpers *helpers;
	struct cks_travels *travels;
	struct cks_absent_sessions *away;
	struct cks_front_process *fronts; /* NULL: no TLS */
	struct cks_upgrade upgrade;
	char driver[8];		   /* the choice of --driver auto; else empty */
	char gpus[CK_DRIVER_GPUS]; /* that CUDA_VISIBLE_DEVICES leaves; see cks_driver_gpus */
};

/* As many descriptors as the process may have. -EMFILE, logged: they are too few to serve
 * anyone. */
int cks_supervisor_raise_limit(void);

/* Make all parts, and listen. -errno, logged. */
int cks_supervisor_start(struct supervisor *supervisor);
/* The end of all parts that are there. */
void cks_supervisor_stop(struct supervisor *supervisor);

/* Open the audit log and read the policy, before clients can connect. -errno, logged. */
int cks_supervisor_open_files(struct supervisor *supervisor);

/* Make all members that need the driver's name. -errno. */
int cks_supervisor_set_up(struct supervisor *supervisor, const char *driver);

/* From now on, no session begins. */
void cks_supervisor_drain(struct supervisor *supervisor);

/* Take the next step of an upgrade, if one is due. Does not return if the new program runs. */
void cks_supervisor_upgrade(struct supervisor *supervisor);

/* Continue where the program before this one, in this process, has ended; @fd: its state. -errno,
 * logged. */
int cks_supervisor_resume(struct supervisor *supervisor, int fd);

#endif
