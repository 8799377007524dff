/*
 * server/options/option_file.h - the file of --config: lines NAME = VALUE with the options' names.
 */
#ifndef CK_SERVER_OPTIONS_OPTION_FILE_H
#define CK_SERVER_OPTIONS_OPTION_FILE_H

struct cks_options;

/*
 * Add the options of the file @path to those that are given. A line is empty, a comment that begins
 * with #, or NAME = VALUE; a comment may follow after a blank. Options without a value have yes or
 * no. With "-" before @path, the file may be missing. -errno, printed with file and line.
 */
int cks_options_read(struct cks_options *options, const char *path);

#endif
