/*
 * server/processes/title.h - what ps(1) shows of a process, in the place of its arguments.
 */
#ifndef CK_SERVER_PROCESSES_TITLE_H
#define CK_SERVER_PROCESSES_TITLE_H

/* Free the place of the arguments for titles: returns copies of them, for the rest of the process.
 * If there is no memory for these, returns @argv itself, and no title is ever shown. Call once,
 * before anything keeps a pointer to an argument. */
char **cks_title_take(int argc, char **argv);

/* Show this, cut to the length that the arguments had. Unprintable characters become '?'. */
void cks_title_set(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
