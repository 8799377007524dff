/*
 * server/options/option_table.c - see option_table.h. The options of the limits are in limits.c.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "server/options/confine.h"
#include "server/options/option_table.h"
#include "server/options/option_values.h"
#include "server/options/options.h"
#include "server/options/setup.h"
#include "server/session/version.h"
#include "util/env.h"

/* --- options that set more than one member, or none */

static int add_listen(const char *address, void *options, char why[CK_OPTION_WHY])
{
	struct cks_options *o = options;

	if (o->listen_count == CK_LISTEN_MAX)
		return cks_option_wrong(why, "more than %d addresses", CK_LISTEN_MAX);
	o->listen[o->listen_count++] = address;
	return 0;
}

static int take_tls(const char *value, void *options, char why[CK_OPTION_WHY])
{
	struct cks_options *o = options;

	o->tls_required = strcmp(value, "offered") != 0;
	return o->tls_required && strcmp(value, "required") != 0
		       ? cks_option_wrong(why, "neither required nor offered")
		       : 0;
}

static int take_pool_peers(const char *value, void *options, char why[CK_OPTION_WHY])
{
	struct cks_options *o = options;

	o->pool_peers_text = value;
	return cks_allowed_peers_parse(value, &o->pool_peers) < 0
		       ? cks_option_wrong(why, "not a list of networks")
		       : 0;
}

static int take_worker_users(const char *value, void *options, char why[CK_OPTION_WHY])
{
	struct cks_options *o = options;

	o->worker_users_text = value;
	return cks_users_parse(value, &o->worker_users) < 0
		       ? cks_option_wrong(why, "not FIRST-LAST, numbers of users above 0")
		       : 0;
}

static int take_confine(const char *value, void *confine, char why[CK_OPTION_WHY])
{
	int ret = cks_confine_check(value);

	*(const char **)confine = value;
	if (ret == -ENOSYS)
		return cks_option_wrong(why, "this kernel has no Landlock");
	return ret < 0 ? cks_option_wrong(why, "not none, nor absolute paths with colons") : 0;
}

/* The words behind it come last. */
static int take_ctl(const char *value, void *options, char why[CK_OPTION_WHY])
{
	static char *const no_word = NULL;
	struct cks_options *o = options;

	(void)value;
	(void)why;
	o->words = &no_word;
	return 0;
}

/* --- options that print something, and end */

static int print_token(const char *name, void *options, char why[CK_OPTION_WHY])
{
	(void)options;
	why[0] = '\0'; /* it is printed */
	return cks_new_token(name) < 0 ? -EINVAL : 1;
}

static int print_help(const char *value, void *options, char why[CK_OPTION_WHY])
{
	(void)value;
	(void)options;
	(void)why;
	cks_options_help();
	return 1;
}

static int print_config(const char *value, void *options, char why[CK_OPTION_WHY])
{
	(void)value;
	(void)options;
	(void)why;
	cks_options_template(stdout);
	return 1;
}

static int print_environment(const char *value, void *options, char why[CK_OPTION_WHY])
{
	(void)value;
	(void)options;
	(void)why;
	ck_env_help(stdout);
	return 1;
}

static int print_version(const char *value, void *options, char why[CK_OPTION_WHY])
{
	(void)value;
	(void)options;
	(void)why;
	printf("cricket-rpc-server %s\n", CK_RELEASE);
	return 1;
}

/* --- the table */

#define MEMBER(name) offsetof(struct cks_options, name)
#define ALL 0 /* the function gets the whole structure */
#define TEXT(number) TEXT_OF(number)
#define TEXT_OF(number) #number

static const struct cks_option rows[] = {
	{"listen", "ADDRESS", CKS_CONNECT, add_listen, ALL, 0,
	 "HOST, HOST:PORT or unix:/PATH; may be given several times; none: no TCP",
	 "127.0.0.1:9909"},
	{"unix", "PATH", CKS_CONNECT, cks_option_path, MEMBER(unix_path), 0,
	 "path of the unix socket",
	 "$XDG_RUNTIME_DIR/cricket.sock, else /run/cricket.sock, else /tmp/cricket-UID.sock"},
	{"no-unix", NULL, CKS_CONNECT, cks_option_flag, MEMBER(no_unix), 0, "no unix socket", NULL},
	{"socket-mode", "MODE", CKS_CONNECT, cks_option_mode, MEMBER(socket_mode), 0,
	 "mode of the clients' unix sockets, as in 0660", "0600"},
	{"socket-group", "GROUP", CKS_CONNECT, cks_option_group, MEMBER(socket_group), 0,
	 "group of the clients' unix sockets", "that of the server"},
	{"no-shm", NULL, CKS_CONNECT, cks_option_no_shm, ALL, 0,
	 "no shared memory with clients on this host", NULL},
	{"pool-peers", "LIST", CKS_CONNECT, take_pool_peers, ALL, 0,
	 "networks of servers to which workers may connect, or none", "private networks"},
	{"client-files", "DIR", CKS_CONNECT, cks_option_path, MEMBER(client_files), 0,
	 "the client that `cricket login --install` gets", "the one beside the server"},

	{"token-file", "FILE", CKS_ADMIT, cks_option_text, MEMBER(token_file), 0,
	 "admit only clients whose CRICKET_TOKEN is the content of FILE, or in its list",
	 "no token"},
	{"insecure", NULL, CKS_ADMIT, cks_option_flag, MEMBER(insecure), 0,
	 "listen for other hosts without a token", NULL},
	{"policy", "FILE", CKS_ADMIT, cks_option_path, MEMBER(policy), 0,
	 "sessions, GPU memory and GPUs of each identity", "no policy"},
	{"audit", "FILE", CKS_ADMIT, cks_option_path, MEMBER(audit), 0,
	 "record sessions, refusals and commands, as lines of JSON", "no audit log"},
	{"audit-required", NULL, CKS_ADMIT, cks_option_flag, MEMBER(audit_required), 0,
	 "refuse sessions that the audit log cannot record", NULL},

	{"tls-cert", "FILE", CKS_ENCRYPT, cks_option_text, MEMBER(tls_cert), 0,
	 "the server's certificate: TLS for clients over TCP", "no TLS"},
	{"tls-key", "FILE", CKS_ENCRYPT, cks_option_text, MEMBER(tls_key), 0,
	 "the private key of the certificate", "no TLS"},
	{"tls-ca", "FILE", CKS_ENCRYPT, cks_option_text, MEMBER(tls_ca), 0,
	 "admit clients with a certificate of these authorities", "none"},
	{"tls", "WHICH", CKS_ENCRYPT, take_tls, ALL, 0, "required or offered",
	 "required with --tls-cert"},

	{"driver", "WHICH", CKS_GPUS, cks_option_text, MEMBER(driver), 0,
	 "auto, cuda, emu, or the path of a driver library", "auto"},
	{"suspend-for-others", NULL, CKS_GPUS, cks_option_flag, MEMBER(suspend_for_others), 0,
	 "if a session finds no GPU memory, suspend the session that has been idle longest", NULL},
	{"resume-anywhere", NULL, CKS_GPUS, cks_option_flag, MEMBER(resume_anywhere), 0,
	 "if its GPU has no free memory, resume a session on another GPU of the same model", NULL},
	{"gpu-time", NULL, CKS_GPUS, cks_option_flag, MEMBER(gpu_time), 0,
	 "measure the GPU time of sessions and identities", NULL},
	{"nccl", "LIBRARY", CKS_GPUS, cks_option_nccl, ALL, 0,
	 "NCCL for programs that run it in the workers; off: none", "libnccl.so.2"},

	{"max-sessions", "N", CKS_WORKERS, cks_option_sessions, MEMBER(max_sessions), 0,
	 "maximum number of programs at a time", TEXT(CK_SESSIONS)},
	{"warm", "N", CKS_WORKERS, cks_option_spares, MEMBER(warm), 0,
	 "workers kept ready for the next programs", "1 with a GPU"},
	{"warm-devices", "LIST", CKS_WORKERS, cks_option_devices, MEMBER(warm_devices), 0,
	 "devices on which these workers hold contexts, as in 0,1; or none", CK_WARM_DEVICES},
	{"standby", "N", CKS_WORKERS, cks_option_spares, MEMBER(standby), 0,
	 "workers kept ready without a context", "1 with a GPU"},
	{"sandbox", "WORD", CKS_WORKERS, cks_option_sandbox, ALL, 0,
	 "refuse system calls that workers never make: auto, on, log or off", "auto"},
	{"confine", "FOLDERS", CKS_WORKERS, take_confine, MEMBER(confine), 0,
	 "let workers open only files that a driver needs, and FOLDERS; none: no other folders",
	 "all files"},
	{"worker-users", "FIRST-LAST", CKS_WORKERS, take_worker_users, ALL, 0,
	 "run the workers of each identity as another user, with a number from this range",
	 "the server's user"},

	{"state-dir", "DIR", CKS_KEPT, cks_option_path, MEMBER(state_dir), 0,
	 "sessions survive a crash of the server, and continue with the next server that uses this "
	 "folder",
	 "sessions end with their server"},
	{"checkpoint-dir", "DIR", CKS_KEPT, cks_option_path, MEMBER(checkpoint_dir), 0,
	 "folder for --checkpoint-every", "none"},
	{"criu", "PROGRAM", CKS_KEPT, cks_option_text, MEMBER(criu), 0,
	 "CRIU, at least 4.1, for checkpoints", "criu"},

	{"cache-dir", "DIR", CKS_FILES, cks_option_text, MEMBER(cache_dir), 0,
	 "folder of the module cache", "CRICKET_CACHE_DIR, or ~/.cache/cricket"},
	{"cache-size", "BYTES", CKS_FILES, cks_option_cache_size, MEMBER(cache_size), 0,
	 "maximum size of the module cache, with K, M, G or T", "CRICKET_CACHE_SIZE, or 4G"},
	{"m3", "PATH", CKS_FILES, cks_option_text, MEMBER(m3_path), 0,
	 "socket for memory shared by name", "that of --unix with .m3 appended"},
	{"ctl-socket", "PATH", CKS_FILES, cks_option_path, MEMBER(ctl_socket), 0,
	 "socket for --ctl", "that of --unix with .ctl appended"},
	{"pid-file", "FILE", CKS_FILES, cks_option_text, MEMBER(pid_file), 0,
	 "write the process id; refuse to start twice", "none"},
	{"log", "LEVELS", CKS_FILES, cks_option_log, ALL, 0,
	 "none, error, warning, info, debug, trace, or a list of PART:LEVEL",
	 "CRICKET_LOG, or info"},
	{"log-format", "FORMAT", CKS_FILES, cks_option_log_format, ALL, 0, "text or json", "text"},

	{"config", "FILE", CKS_COMMANDS, cks_option_text, MEMBER(config), 0,
	 "read more options from FILE; with a minus sign before it, the file may be missing", NULL},
	{"new-config", NULL, CKS_COMMANDS, print_config, ALL, 0,
	 "print a file for --config with all options, as comments", NULL},
	{"show-config", NULL, CKS_COMMANDS, cks_option_flag, MEMBER(show_config), 0,
	 "check options and files, and print which options a server would use, and why", NULL},
	{"new-token", "NAME", CKS_COMMANDS, print_token, ALL, 0,
	 "print a new token, and its line for the list of --token-file", NULL},
	{"setup", NULL, CKS_COMMANDS, cks_option_flag, MEMBER(setup), 0,
	 "make key, certificate and a first token, and print what server and clients need; the "
	 "name of the host and those of the tokens may follow",
	 NULL},
	{"announce", "yes|no", CKS_COMMANDS, cks_option_text, MEMBER(announce), 0,
	 "with --setup: let Avahi announce the server on the local network, or no longer", NULL},
	{"new-cert", "DIR", CKS_COMMANDS, cks_option_text, MEMBER(new_cert), 0,
	 "make a certificate and a key in DIR, for the names that follow, and print the key's pin",
	 NULL},
	{"check-policy", "FILE", CKS_COMMANDS, cks_option_text, MEMBER(check_policy), 0,
	 "check a policy file, also against --token-file, and exit", NULL},
	{"ctl", NULL, CKS_COMMANDS, take_ctl, ALL, 0,
	 "send the command that follows to a running server, as in --ctl sessions", NULL},
	{"help", NULL, CKS_COMMANDS, print_help, ALL, 0, "list the options", NULL},
	{"help-env", NULL, CKS_COMMANDS, print_environment, ALL, 0,
	 "list the environment variables", NULL},
	{"version", NULL, CKS_COMMANDS, print_version, ALL, 0, "print the version", NULL},
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

size_t cks_option_count(void)
{
	return ROWS + CK_LIMITS;
}

struct cks_option cks_option_at(size_t index)
{
	enum cks_limit limit = (enum cks_limit)(index - ROWS);
	struct cks_limit_texts texts;

	if (index < ROWS)
		return rows[index];
	texts = cks_limit_texts(limit);
	return (struct cks_option){.section = CKS_BOUNDS,
				   .limit = limit,
				   .name = texts.name,
				   .argument = texts.argument,
				   .help = texts.help,
				   .usual = texts.usual};
}

size_t cks_option_find(const char *name)
{
	size_t i = 0;

	while (i < cks_option_count() && strcmp(cks_option_at(i).name, name) != 0)
		i++;
	return i;
}

const char *cks_section_title(enum cks_section section)
{
	static const char *const titles[CKS_SECTIONS] = {
		[CKS_CONNECT] = "Where clients connect",
		[CKS_ADMIT] = "Who is admitted, to what",
		[CKS_ENCRYPT] = "Encryption",
		[CKS_GPUS] = "GPUs",
		[CKS_WORKERS] = "Workers, the processes of programs",
		[CKS_KEPT] = "Sessions that outlive the server",
		[CKS_FILES] = "Files and log",
		[CKS_BOUNDS] = "Bounds of programs, addresses and identities",
		[CKS_COMMANDS] = "Other commands",
	};

	return titles[section];
}
