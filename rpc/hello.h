/*
 * rpc/hello.h - the parts of a hello and of its reply, in their order on the wire.
 *
 * Each part is a structure of control.x. A release may append parts: a decoder takes those that are
 * there, leaves later ones as they were, and ignores bytes behind the ones that it knows.
 */
#ifndef CK_RPC_HELLO_H
#define CK_RPC_HELLO_H

#include "cricket.h"

/* The arguments come first, and are always there. */
#define CK_HELLO_PARTS(PART)                                                                       \
	PART(wishes)                                                                               \
	PART(queue) PART(limits) PART(start) PART(need) PART(place) PART(host) PART(part)

/* These follow the result of a hello that is accepted. */
#define CK_HELLO_REPLY_PARTS(PART) PART(more) PART(rules) PART(secret) PART(shadows) PART(lanes)

struct ck_hello {
	ck_hello_args args;
#define CK_HELLO_PART(name) ck_hello_##name name;
	CK_HELLO_PARTS(CK_HELLO_PART)
#undef CK_HELLO_PART
};

/* With CK_HELLO_OK all parts but @kept are needed, with CK_HELLO_KEPT that one, else only @res. */
struct ck_hello_reply {
	ck_hello_res *res;
	ck_hello_kept *kept;
#define CK_HELLO_PART(name) ck_hello_##name *name;
	CK_HELLO_REPLY_PARTS(CK_HELLO_PART)
#undef CK_HELLO_PART
};

bool_t xdr_ck_hello(XDR *xdrs, struct ck_hello *hello);
bool_t xdr_ck_hello_reply(XDR *xdrs, struct ck_hello_reply *reply);

#endif
