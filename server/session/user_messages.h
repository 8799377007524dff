/*
 * server/session/user_messages.h - lines for the program's user: that the session is suspended,
 * that it ends soon, and why it ends.
 *
 * The client prints them on the program's stderr, also while the program makes no call: a thread of
 * it waits for them.
 */
#ifndef CK_SERVER_SESSION_USER_MESSAGES_H
#define CK_SERVER_SESSION_USER_MESSAGES_H

/* The session begins. */
void cks_user_messages_begin(void);

/* Say @line. If the client does not fetch its lines, the oldest are lost. */
void cks_user_messages_say(const char *line);

/* Memory, or a context, was refused because of a limit, which @line names: for the client that asks
 * why. */
void cks_user_messages_refuse(const char *line);

/* Say that the session ends because of @line, and give the client time to print that and to leave:
 * less than CK_GOODBYE_MS (children/worker_exits.c), and none if it is old and does not listen. */
void cks_user_messages_end(const char *line);

#endif
