/*
 * server/policy/terms.h - the terms of an identity in the policy file (server/policy/policy.h).
 */
#ifndef CK_SERVER_POLICY_TERMS_H
#define CK_SERVER_POLICY_TERMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CK_TERMS_GPUS 128

/* Features that may be withheld. */
#define CK_FEATURE_M3 1u
#define CK_FEATURE_CHECKPOINT 2u
#define CK_FEATURES_ALL 3u

/*
 * All that a session of the identity may have; terms.def has the meaning of each member. Where
 * nothing is set, the options of the server hold. Memory is in bytes, times in seconds.
 */
struct cks_terms {
#define CK_TERM(key, kind, type, member, unset, bounds, applies, meaning, usual) type member;
#define CK_TERM_PART(type, member, unset) type member;
#define CK_TERM_TEXT(key, kind, member, size, applies, meaning, usual) char member[size];
#include "server/policy/terms.def"
#undef CK_TERM
#undef CK_TERM_PART
#undef CK_TERM_TEXT
};

/* Nothing is set. */
struct cks_terms cks_terms_none(void);

/*
 * The account (account.h) has the terms of its first release, which end behind gpus, in its head;
 * later ones, from the number that they begin in, at its end.
 */
#define CK_TERMS_FIRST (offsetof(struct cks_terms, gpus) + CK_TERMS_GPUS)
#define CK_TERMS_HEAD (CK_TERMS_FIRST / 8 * 8)
#define CK_TERMS_LATER                                                                             \
	(sizeof(struct cks_terms) > (CK_TERMS_FIRST + 7) / 8 * 8                                   \
		 ? sizeof(struct cks_terms) - CK_TERMS_HEAD                                        \
		 : 0)

#endif
