/*
 * command/run/settings.h - the environment in which a program finds the client library.
 */
#ifndef CK_COMMAND_RUN_SETTINGS_H
#define CK_COMMAND_RUN_SETTINGS_H

#include <stddef.h>

#include "command/config/command.h"

#define CKX_SETTINGS 21

struct ckx_setting {
	const char *name;
	char *value;
};

struct ckx_settings {
	struct ckx_setting list[CKX_SETTINGS];
	size_t count;
};

/* The options of `run` and `env`; the values belong to argv. */
struct ckx_wishes {
	const char *server, *devices, *gpus, *memory, *wait;
	const char *sm;	       /* part of the multiprocessors */
	const char *prefix;    /* name of a command of the server */
	const char *format;    /* of `env` */
	const char *profile;   /* of `run` */
	const char *from;      /* a snapshot: of `run` */
	const char *at;	       /* when the program is ready: of `snapshot` */
	const char *nccl;      /* where NCCL runs */
	const char *assembler; /* stand-in for NVIDIA's, of the emulated GPU (ptxas.h) */
	bool check;	       /* kernels: of `run` */
	bool look_up;	       /* refuse a host whose name is not known: of `run` */
	bool container;	       /* for a container, which has no variables of this process */
};

/* An option "--NAME VALUE" of a command that also has those of `run`. */
struct ckx_own {
	const char *name, **value;
};

/* Take the @count options @own out of argv. The number of words that are left; -EINVAL, printed: a
 * value is empty. */
int ckx_settings_take(int argc, char **argv, const struct ckx_own *own, size_t count);

/* Parse the options up to the first argument, argv[optind]: 0, or -EINVAL,
 * printed. */
int ckx_settings_parse(int argc, char **argv, struct ckx_wishes *wishes);

/* Whether there is an option that only `run` or `snapshot` has. */
bool ckx_settings_of_run(const struct ckx_wishes *wishes);

/* Are their values such as a program can have? -EINVAL, printed: no. */
int ckx_settings_check(const struct ckx_wishes *wishes);

/* The variables for @wishes; those for a container have the address, token and files of this host,
 * see container.h. -errno, printed; free them in any case. */
int ckx_settings_make(const struct ckx_wishes *wishes, struct ckx_settings *settings);
/* The one of the variable @name; NULL: it is not set. */
struct ckx_setting *ckx_settings_find(struct ckx_settings *settings, const char *name);
void ckx_settings_free(struct ckx_settings *settings);

#endif
