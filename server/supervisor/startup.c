/*
 * server/supervisor/startup.c - making the supervisor's parts, and ending them; see
 * supervisor_part.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "cuda/mps.h"
#include "server/children/front_process.h"
#include "server/children/helpers.h"
#include "server/children/workers.h"
#include "server/door/absent_sessions.h"
#include "server/door/broker.h"
#include "server/door/listeners.h"
#include "server/door/new_connection.h"
#include "server/life/migration.h"
#include "server/options/options.h"
#include "server/supervisor/host.h"
#include "server/supervisor/supervisor_part.h"
#include "server/worker/orphan_reconnect.h"
#include "util/log.h"

CK_LOG_DEFINE("server");

/* Descriptors: with fewer, silent connections would leave none for sessions. */
#define CK_FILES_LEAST 128
#define CK_RETURN_MS 2000 /* after a crash, for sessions to find this server */

int cks_supervisor_raise_limit(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) < 0)
		return 0;
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	if (files.rlim_max >= CK_FILES_LEAST)
		return 0;
	ck_err("the server may open only %llu files at a time, and needs %d: raise the limit "
	       "(ulimit -n, LimitNOFILE=)",
	       (unsigned long long)files.rlim_max, CK_FILES_LEAST);
	return -EMFILE;
}

/* By default one, and none with the emulated driver, which loads in milliseconds. */
static unsigned int spares_wanted(int option, const char *driver)
{
	return option >= 0 ? (unsigned int)option : strcmp(driver, "emu") != 0;
}

int cks_supervisor_open_files(struct supervisor *s)
{
	const struct cks_options *o = s->options;
	int ret = cks_audit_open(o->audit, o->audit_required, &s->audit);

	if (ret == 0 && o->policy)
		ret = cks_accounts_create(o, &s->accounts);
	return ret;
}

int cks_supervisor_set_up(struct supervisor *s, const char *driver)
{
	s->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (strcmp(s->options->driver, "auto") == 0) {
		snprintf(s->driver, sizeof(s->driver), "%s", driver);
		driver = s->driver;
	}
	s->spares.warm = spares_wanted(s->options->warm, driver);
	s->spares.standby = spares_wanted(s->options->standby, driver);
	cks_broker_driver(s->broker, driver);
	s->workers = cks_workers_create(s->options, driver, cks_broker_path(s->broker));
	s->helpers = cks_helpers_create();
	s->travels = cks_travels_create();
	s->away = cks_absent_sessions_create();
	if (s->workers && s->helpers && s->travels && s->away)
		s->fresh = cks_new_connection_create(s->workers, s->options, s->away, s->audit,
						     s->fronts);
	if (!s->fresh)
		return -ENOMEM;
	cks_new_connection_driver(s->fresh, driver);
	cks_gpu_time_start(&s->gauge, s->options->gpu_time, driver);
	cks_workers_gpus(s->workers, s->gpus);
	cks_workers_audit(s->workers, s->audit);
	cks_workers_accounts(s->workers, s->accounts);
	if (s->options->worker_users.first) {
		s->uids = cks_uids_create(&s->options->worker_users);
		if (!s->uids)
			return -ENOMEM;
		cks_workers_users(s->workers, s->uids);
	}
	cks_workers_fork_early(s->workers, driver);
	s->suspender = cks_suspender_create(s->options, driver, s->workers, s->control);
	return s->suspender ? 0 : -ENOMEM;
}

/* NVIDIA's MPS puts several processes into one context, and the server cannot turn it off. */
static void warn_of_mps(void)
{
	if (ck_cuda_mps_runs())
		ck_warn("NVIDIA MPS is running: a fault of one session may end the others; "
			"to stop it: echo quit | nvidia-cuda-mps-control");
	else if (getenv("CUDA_MPS_PIPE_DIRECTORY"))
		ck_warn("CUDA_MPS_PIPE_DIRECTORY is set: sessions will use NVIDIA MPS if it runs; "
			"to stop it: echo quit | nvidia-cuda-mps-control");
}

int cks_supervisor_start(struct supervisor *s)
{
	const char *driver;
	int ret = cks_pid_file_write(s->options->pid_file, &s->pid_file);

	if (ret == 0 && s->options->state_dir)
		ret = cks_rendezvous_open(&s->rendezvous, s->options->state_dir,
					  &s->options->worker_users);
	if (ret == 0 && s->options->checkpoint_dir)
		ret = cks_orphan_folder(s->options->checkpoint_dir);
	if (ret == 0)
		ret = cks_supervisor_open_files(s);
	if (ret == 0)
		ret = cks_listeners_open(&s->listeners, s->options);
	if (ret < 0)
		return ret;
	s->broker = cks_broker_create(s->options, cks_listeners_unix(&s->listeners));
	s->control = cks_control_create(s->options->ctl_socket, cks_listeners_unix(&s->listeners));
	ret = cks_front_process_create(s->options, &s->fronts);
	if (ret < 0)
		return ret;
	/* Clients that connect meanwhile wait in the sockets' queues. */
	driver = cks_driver_choose(s->options->driver, s->gpus);
	if (!driver)
		return -ENODEV;
	if (strcmp(driver, "emu") != 0)
		warn_of_mps();
	ret = cks_supervisor_set_up(s, driver);
	if (ret == 0) {
		/* not in an upgrade, during which running programs may wait for this process */
		cks_workers_await_fork_server(s->workers);
		cks_listeners_announce(&s->listeners);
	}
	if (ret == 0 && s->options->state_dir)
		cks_workers_expect(s->workers, CK_RETURN_MS);
	return ret;
}

void cks_supervisor_stop(struct supervisor *s)
{
	cks_listeners_close(&s->listeners);
	cks_new_connection_destroy(s->fresh);
	cks_gpu_time_stop(&s->gauge);
	cks_broker_destroy(s->broker);
	cks_control_destroy(s->control);
	cks_rendezvous_close(&s->rendezvous);
	cks_suspender_destroy(s->suspender);
	cks_travels_destroy(s->travels);
	cks_helpers_destroy(s->helpers);
	cks_absent_sessions_destroy(s->away);
	cks_workers_destroy(s->workers, cks_drain_line(&s->drain));
	/* workers have said over their connections why they end */
	cks_front_process_destroy(s->fronts);
	cks_accounts_destroy(s->accounts);
	cks_uids_destroy(s->uids);
	cks_audit_event(s->audit, "server-stop", NULL);
	cks_audit_close(s->audit);
	cks_rpcbind_unset();
	cks_pid_file_remove(s->options->pid_file, s->pid_file);
}
