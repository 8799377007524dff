/*
 * server/options/options.h - the options of cricket-rpc-server: command line, and the file of
 * --config.
 */
#ifndef CK_SERVER_OPTIONS_OPTIONS_H
#define CK_SERVER_OPTIONS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "server/direct/allowed_peers.h"
#include "server/policy/limits.h"
#include "server/policy/users.h"
#include "server/processes/sockets.h"

#define CK_SESSIONS 256	    /* of --max-sessions, unless it is given */
#define CK_WARM_DEVICES "0" /* of --warm-devices */
#define CK_NAMED_FILES_MAX 192
#define CK_WARM_MAX 64 /* spare workers with contexts; as many without */

/* An option that is not left at its default. */
struct cks_given {
	size_t index;	    /* in the table (option_table.h) */
	const char *value;  /* NULL: a flag */
	const char *origin; /* FILE:LINE; NULL: the command line */
};

struct cks_options {
	struct cks_given given[CK_NAMED_FILES_MAX];
	size_t given_count;
	const char *config; /* the file of more options; NULL: none */
	bool show_config;   /* print the options, and end */
	const char *listen[CK_LISTEN_MAX];
	size_t listen_count;
	const char *unix_path; /* NULL: the first usual place that works */
	bool no_unix;
	unsigned int socket_mode; /* of unix sockets; 0: 0600 */
	long socket_group;	  /* -1: the server's own */
	const char *driver;	  /* auto, cuda, emu or a path */
	const char *token_file;	  /* NULL: none */
	bool insecure;		  /* other hosts are served without a token */
	const char *audit;	  /* file of the audit log; NULL: none */
	const char *policy;	  /* the policy file; NULL: none */
	const char *check_policy; /* check this one and end; NULL: run a server */
	bool audit_required;	  /* no session begins that it cannot record */
	const char *tls_cert;	  /* the server's certificate; NULL: no TLS */
	const char *tls_key;
	const char *tls_ca;	     /* signers of clients' certificates; NULL: they need none */
	bool tls_required;	     /* connections over a network use TLS */
	const char *new_cert;	     /* a folder for a new certificate; NULL: run a server */
	bool setup;		     /* make files for a server, and end */
	const char *announce;	     /* of --setup: yes or no; NULL: as it is */
	const char *pool_peers_text; /* NULL: the usual ones */
	struct cks_allowed_peers pool_peers; /* where workers may connect to, for copies */
	const char *client_files;   /* folder of the client that is sent; NULL: the server's */
	const char *cache_dir;	    /* NULL: the usual places */
	const char *cache_size;	    /* as CRICKET_CACHE_SIZE */
	const char *m3_path;	    /* the memory broker's socket; NULL: beside the server's own */
	const char *state_dir;	    /* NULL: sessions end with their server */
	const char *pid_file;	    /* NULL: none */
	const char *checkpoint_dir; /* for --checkpoint-every; NULL: none */
	const char *criu;	    /* the program that writes workers into files */
	const char *ctl_socket;	    /* NULL: beside the server's own */
	char *const *words;	    /* of --ctl: a command and its arguments; NULL: run a server */
	size_t word_count;
	struct cks_user_range worker_users; /* first 0: workers stay the server's user */
	const char *worker_users_text;	    /* as on the command line; NULL: not given */
	const char
		*confine; /* workers open files that a driver needs, and these folders; NULL: all */
	bool suspend_for_others;
	bool resume_anywhere;
	bool gpu_time; /* measure that of sessions */
	unsigned int max_sessions;
	struct cks_limits limits;
	int warm, standby;	  /* numbers of spare workers; -1: one with a real driver */
	const char *warm_devices; /* devices whose contexts they hold: "0,1", or "none" */
};

/* Print the options, on stdout; a commented file for --config; the options as they are, with their
 * origins, and the content of tokens and policy: -errno if one of these is wrong, which the text
 * says. */
void cks_options_help(void);
void cks_options_template(FILE *out);
int cks_options_show(const struct cks_options *options, FILE *out);

/* Is @path in a folder that is not there, and that the unit of the service makes before a start? It
 * is printed as a comment of @option then. */
bool cks_options_service_makes(FILE *out, const char *option, const char *path);

/* Print, as a comment, that the value of @option is wrong, and why. Returns -EINVAL. */
int cks_options_wrong(FILE *out, const char *option, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* path_check.c: check paths that are given and that only workers and other processes use. -EINVAL:
 * the server does not start with one. Printed on @out, as comments, or for NULL, as errors on
 * stderr and warnings in the log. */
int cks_options_check_paths(const struct cks_options *options, FILE *out);

/* Add an option to those that are given. @origin: see struct cks_given. -EINVAL, printed. */
int cks_options_give(struct cks_options *options, size_t index, const char *value,
		     const char *origin);

/* Is the option @name among those that are given? */
bool cks_options_gives(const struct cks_options *options, const char *name);

/* The arguments of a server with these options, even if the file of --config has changed since;
 * NULL: out of memory. They are never freed. */
char **cks_options_arguments(const struct cks_options *options, const char *program);

/* 0: continue; 1: done, exit successfully (--help); -EINVAL: invalid, printed on stderr. */
int cks_options_parse(int argc, char **argv, struct cks_options *options);

/* --- the file of --config: lines NAME = VALUE with the options' names (option_file.c) */

/*
 * Add the options of the file @path to those that are given. A line is empty, a comment that begins
 * with #, or NAME = VALUE; a comment may follow after a blank. Options without a value have yes or
 * no. With "-" before @path, the file may be missing. -errno, printed with file and line.
 */
int cks_options_read(struct cks_options *options, const char *path);

#endif
