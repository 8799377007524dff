/*
 * command/config/command.h - the subcommands of `cricket`, and how they speak to the user.
 *
 * A subcommand returns the exit status. Other functions return 0 or -errno; the one that detects an
 * error prints it, on one line that begins with "cricket: ".
 */
#ifndef CK_COMMAND_CONFIG_COMMAND_H
#define CK_COMMAND_CONFIG_COMMAND_H

#include <stdbool.h>

enum {
	CKX_OK = 0,
	CKX_FAILED = 1,
	CKX_USAGE = 2,
	CKX_FOUND = 99,	      /* --check has found errors in kernels */
	CKX_CANNOT_RUN = 126, /* as a shell says it */
	CKX_NOT_FOUND = 127,
};

struct ckx_command {
	const char *name;
	const char *arguments; /* for the usage line */
	const char *purpose;   /* one line */
	const char *options;   /* lines of the help, or NULL */
	int (*run)(const struct ckx_command *self, int argc, char **argv);
};

/* Each in the file of its name; ckx_session, ckx_engine: several commands. */
int ckx_run(const struct ckx_command *self, int argc, char **argv);
int ckx_run_any(const struct ckx_command *self, int argc, char **argv);
int ckx_snapshot(const struct ckx_command *self, int argc, char **argv);
int ckx_snapshots(const struct ckx_command *self, int argc, char **argv);
int ckx_env(const struct ckx_command *self, int argc, char **argv);
int ckx_cdi(const struct ckx_command *self, int argc, char **argv);
int ckx_engine(const struct ckx_command *self, int argc, char **argv);
int ckx_check(const struct ckx_command *self, int argc, char **argv);
int ckx_session(const struct ckx_command *self, int argc, char **argv);
int ckx_ended_programs(const struct ckx_command *self, int argc, char **argv);
int ckx_move(const struct ckx_command *self, int argc, char **argv);
int ckx_status(const struct ckx_command *self, int argc, char **argv);
int ckx_metrics(const struct ckx_command *self, int argc, char **argv);
int ckx_trace(const struct ckx_command *self, int argc, char **argv);
int ckx_top(const struct ckx_command *self, int argc, char **argv);
int ckx_servers(const struct ckx_command *self, int argc, char **argv);
int ckx_jupyter(const struct ckx_command *self, int argc, char **argv);
int ckx_token(const struct ckx_command *self, int argc, char **argv);
int ckx_put(const struct ckx_command *self, int argc, char **argv);
int ckx_store(const struct ckx_command *self, int argc, char **argv);
int ckx_login(const struct ckx_command *self, int argc, char **argv);

/* messages.c: an error, as printf does it, with the newline. Returns CKX_FAILED. */
int ckx_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The help of a subcommand, on stdout. Returns CKX_OK. */
int ckx_help(const struct ckx_command *command);
/* What to do about wrong arguments: the usage line on stderr, and where the help is. Returns
 * CKX_USAGE. */
int ckx_usage(const struct ckx_command *command);
/* May output on @fd (1 or 2) have colours: a terminal, and NO_COLOR is not set? */
bool ckx_colours(int fd);

#endif
