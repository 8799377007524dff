/*
 * server/supervisor/reload.h - reading the files of a running server again: tokens, policy,
 * certificate and key, audit log.
 */
#ifndef CK_SERVER_SUPERVISOR_RELOAD_H
#define CK_SERVER_SUPERVISOR_RELOAD_H

#define CK_RELOAD_WHY 1024

struct cks_accounts;
struct cks_audit;
struct cks_new_connection_list;
struct cks_front_process;
struct cks_options;
struct cks_workers;

/* The parts with files; NULL: the server does not have them. */
struct cks_reload {
	const struct cks_options *options;
	struct cks_workers *workers;
	struct cks_new_connection_list *fresh;
	struct cks_front_process *fronts;
	struct cks_accounts *accounts;
	struct cks_audit *audit;
};

/*
 * Read all files again, for @by: a signal or a command. A file that is wrong changes nothing:
 * policy, certificate and audit log stay as they were. (A wrong token file is read, as at any time:
 * it admits no client.) -EINVAL, logged: one is wrong; @why then names all of them.
 */
int cks_reload_run(const struct cks_reload *parts, const char *by, char why[CK_RELOAD_WHY]);

#endif
