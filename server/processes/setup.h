/*
 * server/processes/setup.h - `--setup`: all that a server for other hosts needs, and what to do with it.
 */
#ifndef CK_SERVER_PROCESSES_SETUP_H
#define CK_SERVER_PROCESSES_SETUP_H

/*
 * Make certificate, key and a first token where this user's server, or the packaged service, has them (util/server_files.h); what is
 * there is kept. Print how to start the server, and the line for clients. @program: the server's, as it was called.
 * @host: the name by which clients reach this host; NULL: its own. @name: whose token; NULL: that of the user. -errno, printed on stderr.
 */
int cks_setup(const char *program, const char *host, const char *name);

#endif
