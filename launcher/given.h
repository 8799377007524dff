/*
 * launcher/given.h - what the command line gives in files that only this process can read: the
 * kernel, and the request.
 */
#ifndef CK_LAUNCHER_GIVEN_H
#define CK_LAUNCHER_GIVEN_H

#include "launcher/fail.h"
#include "launcher/options.h"

/*
 * Put the kernel of @options->file into the defaults, as "module" where a worker can open it and
 * else as what it is; then make @options->request standard input. -errno with @fail set.
 */
int ck_given_take(struct ck_options *options, struct ck_fail *fail);

#endif
