/*
 * server/session/words.h - lines for the program's user: that the session ends soon, and why it ends.
 *
 * The client prints them on the program's stderr, also while the program makes no call: a thread of it waits for them.
 * It starts that thread only if the reply to its hello says that the server may have something to say.
 */
#ifndef CK_SERVER_SESSION_WORDS_H
#define CK_SERVER_SESSION_WORDS_H

#include <stdbool.h>

#define CK_WORDS_ROOM 192 /* of a line, with its NUL */

/* Say @line; @last: the session ends because of it. A line that the client has not fetched is replaced. */
void cks_words_say(const char *line, bool last);

#endif
