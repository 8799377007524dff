/*
 * rpc/hello.c - see hello.h.
 */
#include <stdbool.h>

#include "rpc/hello.h"

/* Does the sender's release end here? */
static bool hello_ends(const XDR *xdrs)
{
	return xdrs->x_op == XDR_DECODE && xdrs->x_handy == 0;
}

bool_t xdr_ck_hello(XDR *xdrs, struct ck_hello *hello)
{
#define CODE_PART(name) &&(hello_ends(xdrs) || xdr_ck_hello_##name(xdrs, &hello->name))
	return xdr_ck_hello_args(xdrs, &hello->args) CK_HELLO_PARTS(CODE_PART);
#undef CODE_PART
}

static bool_t code_reply_parts(XDR *xdrs, struct ck_hello_reply *reply)
{
#define CODE_PART(name) &&(hello_ends(xdrs) || xdr_ck_hello_##name(xdrs, reply->name))
	return TRUE CK_HELLO_REPLY_PARTS(CODE_PART);
#undef CODE_PART
}

bool_t xdr_ck_hello_reply(XDR *xdrs, struct ck_hello_reply *reply)
{
	if (!xdr_ck_hello_res(xdrs, reply->res))
		return FALSE;
	if (reply->res->status == CK_HELLO_KEPT)
		return xdr_ck_hello_kept(xdrs, reply->kept);
	return reply->res->status != CK_HELLO_OK || code_reply_parts(xdrs, reply);
}
