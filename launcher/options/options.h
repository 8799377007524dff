/*
 * launcher/options/options.h - the command line of gpu_launcher; see its man page.
 */
#ifndef CK_LAUNCHER_OPTIONS_OPTIONS_H
#define CK_LAUNCHER_OPTIONS_OPTIONS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "launcher/text/failure.h"

enum ckl_mode {
	CK_MODE_ONCE,	/* one launch, stdin to stdout */
	CK_MODE_BATCH,	/* messages from stdin until it ends */
	CK_MODE_DAEMON, /* the same for each client of a socket */
	CK_MODE_CACHE,
	CK_MODE_COMPILE, /* a source into the cache, without a GPU */
};

struct ckl_options {
	enum ckl_mode mode;
	const char *driver;
	int device;
	const char *cache_dir; /* NULL: the usual places */
	uint64_t cache_size;
	const char *compiler; /* auto, nvrtc, nvcc */
	const char *daemon;   /* socket to listen on or to connect to; NULL: none */
	bool connect;	      /* to a daemon */
	bool connect_try;     /* only if one is there */
	const char *cache_command;
	bool lend;   /* the reader of stdout copies its input at once */
	bool frames; /* stdin and stdout are frames: errors before the first are too */
	uint64_t input_max;
	const char *file;	  /* of the kernel, "-": stdin; NULL except for one launch */
	const char *request;	  /* a file in place of stdin, or NULL */
	json_t *defaults;	  /* the command line's defaults of each launch */
	const char *compile_path; /* "-": stdin */
	const char *compile_name; /* of a text from stdin */
	unsigned compile_sm;
};

/* 0: go on; 1: nothing is left to do (--help); -EINVAL: refused, with a message on stderr. */
int ckl_options_parse(int argc, char **argv, struct ckl_options *options);

/* --- a kernel and a request from pipes (named_files.c) */

/*
 * Put the kernel of @options->file into the defaults, as "module" if a worker can open it, else by
 * its content; then make @options->request standard input. -errno with @fail set.
 */
int ckl_named_files_take(struct ckl_options *options, struct ckl_fail *fail);

#endif
