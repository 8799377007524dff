/*
 * server/control/ctl.h - `cricket-rpc-server --ctl COMMAND [ARGUMENT]...`: commands for a running
 * server (control.h), as a program of its own.
 */
#ifndef CK_SERVER_CONTROL_CTL_H
#define CK_SERVER_CONTROL_CTL_H

#include <jansson.h>

struct cks_command;
struct cks_options;

/* Carry out @options->words, of @commands, the last of which has no name, and print the result;
 * returns the exit status. */
int cks_ctl_main(const struct cks_command *commands, const struct cks_options *options);

/* Send @request, which it takes, over the control connection @server, with descriptor @pass unless
 * that is -1. The reply, the caller's to release; NULL: the server has gone. */
json_t *cks_ctl_ask(int server, json_t *request, int pass);
/* The same; @meanwhile, with @data, is called at once, and every @ms while there is no reply. */
json_t *cks_ctl_await(int server, json_t *request, int pass, void (*meanwhile)(void *data),
		      void *data, int ms);
/* Connect to the server of @options: a control connection, or -errno, printed. */
int cks_ctl_dial(const struct cks_options *options);

/*
 * ctl_move.c: both sides of a move. `move` starts the command `receive` on the other machine (ssh,
 * or what the user says), and passes the connection to the server here. Each takes @request; the
 * reply.
 */
json_t *cks_ctl_move(int server, json_t *request, const struct cks_options *options);
json_t *cks_ctl_receive(int server, json_t *request, const struct cks_options *options);

#endif
