/*
 * launcher/options/named_files.h - a kernel and a request that the command line names and only this
 * process can read, such as a pipe.
 */
#ifndef CK_LAUNCHER_OPTIONS_NAMED_FILES_H
#define CK_LAUNCHER_OPTIONS_NAMED_FILES_H

#include "launcher/options/options.h"
#include "launcher/text/failure.h"

/*
 * Put the kernel of @options->file into the defaults, as "module" if a worker can open it, else by
 * its content; then make @options->request standard input. -errno with @fail set.
 */
int ckl_named_files_take(struct ckl_options *options, struct ckl_fail *fail);

#endif
