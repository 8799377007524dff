/*
 * loader/options.h - the command line.
 */
#ifndef CK_LOADER_OPTIONS_H
#define CK_LOADER_OPTIONS_H

#include "loader/half.h"

struct ck_options {
	bool map;	 /* print who lies where */
	const char *gdb; /* the file for gdb's commands; NULL: none */
};

/*
 * Reads the options, with a half of ck_halves for each --lh. Returns the program and its arguments.
 * --help, --version and --check end the loader; so does an error, with status 2.
 */
char **ck_options_parse(char **argv, struct ck_options *options);

#endif
