/*
 * server/worker/first_message.c - see first_message.h.
 */
#include <errno.h>
#include <string.h>

#include "rpc/fragments.h"
#include "rpc/record.h"
#include "server/processes/connection_peek.h"
#include "server/session/session.h"
#include "server/worker/first_message.h"
#include "util/hash.h"

static int kind_of(uint32_t proc)
{
	switch (proc) {
	case CK_JOIN:
		return CK_FIRST_JOIN;
	case CK_LINK:
		return CK_FIRST_LINK;
	case CK_DIRECT:
		return CK_FIRST_DIRECT;
	default:
		return -EPROTO;
	}
}

static bool decode_first(struct cks_first_message *first, XDR *xdrs)
{
	ck_join_args join;

	if (first->kind == CK_FIRST_DIRECT)
		return xdr_ck_direct_args(xdrs, &first->direct);
	if (first->kind == CK_FIRST_LINK)
		return xdr_ck_link_args(xdrs, &first->args);
	if (!xdr_ck_join_args(xdrs, &join))
		return false;
	memcpy(first->args.session, join.session, sizeof(join.session));
	memcpy(first->args.key, join.key, sizeof(join.key));
	first->args.lane = join.lane;
	return true;
}

int cks_first_message_read(struct ck_chan *chan, struct cks_first_message *first)
{
	unsigned char body[CK_PEEK_MAX];
	struct ck_call_header header;
	size_t size;
	XDR xdrs;
	int ret = ck_fragments_read(chan, body, sizeof(body), &size);

	if (ret < 0)
		return ret;
	if (ck_call_decode(body, size, &header) < 0 || header.program != CK_PROGRAM ||
	    header.version != CK_VERSION || kind_of(header.proc) < 0)
		return -EPROTO;
	*first = (struct cks_first_message){.xid = header.xid};
	first->kind = kind_of(header.proc);
	xdrmem_create(&xdrs, (char *)body + header.size, (u_int)(size - header.size), XDR_DECODE);
	return decode_first(first, &xdrs) ? 0 : -EPROTO;
}

bool cks_first_message_proves(const struct cks_first_message *first,
			      const struct cks_session *session)
{
	return ck_secret_equal(first->args.session, session->id, sizeof(session->id)) &&
	       ck_secret_equal(first->args.key, session->key, sizeof(session->key));
}
