/*
 * client/wire/user_messages.h - lines of the server for the program's user.
 */
#ifndef CK_CLIENT_WIRE_USER_MESSAGES_H
#define CK_CLIENT_WIRE_USER_MESSAGES_H

struct ckc_client;

/* Listen, in a thread, if the server may have something to say. Call it when the session exists,
 * once. */
void ckc_user_messages_listen(struct ckc_client *client);

/* The server has refused memory: print why, if that was a limit. Once in the process. */
void ckc_user_messages_refused(struct ckc_client *client);

#endif
