/*
 * server/memory/window.h - addresses for memory that has the same address in the client's process
 * and on the device, reserved before the client asks for them.
 */
#ifndef CK_SERVER_MEMORY_WINDOW_H
#define CK_SERVER_MEMORY_WINDOW_H

#include <stdbool.h>

struct cks_session;

/* Reserve them for the session to come, if the driver can. */
void cks_window_prepare(void);
/* They belong to @session from now on, which has them in window_lo and window_hi. False: none are
 * reserved. */
bool cks_window_offer(struct cks_session *session);

#endif
