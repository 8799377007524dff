/*
 * client/link/reconnect_link.c - see client/link/reconnect_link.h.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "client/link/reconnect_link.h"
#include "client/link/stats.h"
#include "rpc/chan.h"
#include "rpc/links.h"
#include "rpc/record.h"

#define LINK_XID 1
#define LINK_REPLY 40 /* bytes: mark, head, status, count */
#define MOVED_MOST (4 + CK_MOVED_MAX + 1)
#define LAST_FRAGMENT 0x80000000u

int ckc_reconnect_link_send(struct ckc_client *c, const struct ck_link *link,
			    struct ck_chan *connection, uint64_t received)
{
	ck_link_args args = {
		.lane = (ck_lane_kind)link->kind, .number = link->number, .received = received};
	unsigned char bytes[256];
	struct iovec iov = {.iov_base = bytes};
	long n;

	ck_lock(&c->keeping.names_lock);
	memcpy(args.session, c->hello.session, sizeof(args.session));
	memcpy(args.key, c->hello.key, sizeof(args.key));
	ck_unlock(&c->keeping.names_lock);
	n = ck_call_encode(bytes, sizeof(bytes), LINK_XID, CK_LINK, (xdrproc_t)xdr_ck_link_args,
			   &args, 0);
	if (n < 0)
		return (int)n;
	iov.iov_len = (size_t)n;
	if (ckc_stats_on)
		ckc_stats_sent(CK_LINK, (size_t)n);
	return ck_chan_writev(connection, &iov, 1);
}

/*
 * Read the rest of a reply whose first @had bytes are at @bytes: the server that the session is on;
 * empty: it is about to leave. The server is on another machine, and only the user can name a
 * socket of this one, or a program that is to be started (ssh://, local).
 */
static int read_moved(struct ck_chan *connection, const unsigned char *bytes, size_t had,
		      char moved[CK_MOVED_MAX + 1])
{
	char address[CK_MOVED_MAX + 1] = "", why[CK_ADDRESS_WHY];
	struct ck_address parsed;
	ck_link_moved where = {.address = address};
	unsigned char rest[MOVED_MOST];
	uint32_t mark;
	size_t size;
	XDR xdrs;

	memcpy(&mark, bytes, sizeof(mark));
	size = (ntohl(mark) & ~LAST_FRAGMENT) + sizeof(mark) - had;
	if (size > sizeof(rest) || ck_chan_read(connection, rest, size) < 0)
		return -EPROTO;
	xdrmem_create(&xdrs, (char *)rest, (u_int)size, XDR_DECODE);
	if (!xdr_ck_link_moved(&xdrs, &where) ||
	    (address[0] &&
	     (ck_address_parse(address, &parsed, why) < 0 || parsed.kind != CK_ADDRESS_TCP)))
		return -EPROTO;
	memcpy(moved, address, sizeof(address));
	return -EREMOTE;
}

int ckc_reconnect_link_answer(struct ck_chan *connection, ck_link_res *res,
			      char moved[CK_MOVED_MAX + 1])
{
	unsigned char bytes[LINK_REPLY];
	uint32_t xid, low, high;
	size_t results;
	XDR xdrs;
	int ret;

	ret = ck_chan_read(connection, bytes, sizeof(bytes));
	if (ret == 0)
		ret = ck_reply_decode(bytes + 4, sizeof(bytes) - 4, &xid, &results, &low, &high);
	if (ret < 0)
		return ret;
	xdrmem_create(&xdrs, (char *)bytes + 4 + results, (u_int)(sizeof(bytes) - 4 - results),
		      XDR_DECODE);
	if (!xdr_ck_link_res(&xdrs, res))
		return -EPROTO;
	if (res->status == 3)
		return read_moved(connection, bytes, sizeof(bytes), moved);
	switch (res->status) {
	case 0:
		return 0;
	case 1:
		return -ENOENT;
	case 4:
		return -ESTALE;
	default:
		return -EACCES;
	}
}
