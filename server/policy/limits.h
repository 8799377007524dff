/*
 * server/policy/limits.h - limits per client, each an option of the server, in one table.
 */
#ifndef CK_SERVER_POLICY_LIMITS_H
#define CK_SERVER_POLICY_LIMITS_H

#include <stdint.h>

#define CK_LIMIT_WHY 256

enum cks_limit {
	CK_LIMIT_LANES,	    /* connections of a session for calls */
	CK_LIMIT_OUTPUT,    /* bytes of unfetched kernel output */
	CK_LIMIT_PINNED,    /* bytes of host memory that a session may register */
	CK_LIMIT_CACHE,	    /* bytes of an identity's images in the module cache */
	CK_LIMIT_ADDRESS,   /* sessions of one peer (peer.h) */
	CK_LIMIT_IDENTITY,  /* sessions of one identity */
	CK_LIMIT_COMMANDS,  /* seconds that a session may be without a command connection */
	CK_LIMIT_DRAIN,	    /* seconds that sessions have to end after SIGTERM */
	CK_LIMIT_KEEP,	    /* seconds that a session waits for its lost connections */
	CK_LIMIT_KEPT,	    /* sessions that wait for connections */
	CK_LIMIT_PARK,	    /* seconds that a session has to come to rest */
	CK_LIMIT_IDLE,	    /* seconds after which an idle session is suspended */
	CK_LIMIT_SUSPENDED, /* bytes of host memory for suspended sessions */
	CK_LIMIT_PARKED,    /* bytes of host memory that workers fill with device memory */
	CK_LIMIT_QUANTUM,   /* seconds that a session runs while others wait for its memory */
	CK_LIMIT_SAVE,	    /* seconds between two checkpoints of a session */
	CK_LIMIT_LEASE,	    /* bytes of device memory that a session gets before it asks */
	CK_LIMIT_STORE,	    /* bytes of an identity's uploads that are kept */
	CK_LIMITS,
};

struct cks_limits {
	uint64_t value[CK_LIMITS];
	const char *given[CK_LIMITS]; /* as on the command line; NULL: the default */
};

/* A limit as an option: its name, without dashes; the name of its value in --help; its effect; its
 * default in words. */
struct cks_limit_texts {
	const char *name, *argument, *help, *usual;
};
struct cks_limit_texts cks_limit_texts(enum cks_limit limit);
/* The least and the greatest value that it may have. */
void cks_limit_range(enum cks_limit limit, uint64_t *least, uint64_t *most);

void cks_limits_init(struct cks_limits *limits);

/* Set defaults that depend on the maximal number of sessions. */
void cks_limits_set_defaults(struct cks_limits *limits, unsigned int max_sessions);

/* Set a limit from @text: a number; for bytes, optionally with K, M, G or T; for a time, with s, m
 * or h. -EINVAL: @why is the reason. */
int cks_limits_set(struct cks_limits *limits, enum cks_limit limit, const char *text,
		   char why[CK_LIMIT_WHY]);

/* The bounds of one identity: those that its @terms set replace the options. */
struct cks_terms;
void cks_limits_apply(struct cks_limits *limits, const struct cks_terms *terms);

#endif
