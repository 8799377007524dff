/*
 * tests/unit/server_session.h - a session of the server without a client, with a module cache in
 * memory.
 */
#ifndef CK_TESTS_UNIT_SERVER_SESSION_H
#define CK_TESTS_UNIT_SERVER_SESSION_H

#include "server/modules/modcache.h"
#include "server/session/session.h"

/* Destroy it with cks_session_destroy(). */
static inline struct cks_session *session_without_client(void)
{
	struct cks_session *session;
	struct cks_modcache *cache;

	assert_int_equal(cks_modcache_open("/proc/no-such-place", NULL, 1 << 20, 1 << 20, &cache),
			 0);
	assert_int_equal(cks_session_create(cache, NULL, 1, &session), 0);
	return session;
}

#endif
