/*
 * server/policy/terms.c - see terms.h.
 */
#include "server/policy/terms.h"

struct cks_terms cks_terms_none(void)
{
	return (struct cks_terms){
#define CK_TERM(key, kind, type, member, unset, bounds, applies, meaning, usual) .member = (unset),
#define CK_TERM_PART(type, member, unset) .member = (unset),
#define CK_TERM_TEXT(key, kind, member, size, applies, meaning, usual)
#include "server/policy/terms.def"
#undef CK_TERM
#undef CK_TERM_PART
#undef CK_TERM_TEXT
	};
}
