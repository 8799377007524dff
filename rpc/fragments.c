/*
 * rpc/fragments.c - see fragments.h.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "rpc/fragments.h"
#include "rpc/record.h"
#include "util/util.h"

uint32_t ck_mark_at(const unsigned char *at)
{
	uint32_t mark;

	memcpy(&mark, at, sizeof(mark));
	return ntohl(mark);
}

bool ck_mark_allowed(uint32_t mark, size_t got)
{
	size_t size = mark & ~CK_LAST_FRAGMENT;
	bool last = mark & CK_LAST_FRAGMENT;

	if (size == 0)
		return last && got > 0;
	if (last && got == 0)
		return true; /* a single fragment may have bulk payload of any length */
	return got <= CK_RECORD_MAX && size <= CK_RECORD_MAX - got;
}

int ck_fragments_join(unsigned char *data, size_t size, size_t max, struct ck_joined *joined)
{
	struct ck_joined j = {.complete = false};

	while (!j.complete && size - j.wire >= CK_MARK) {
		uint32_t mark = ck_mark_at(data + j.wire);
		size_t length = mark & ~CK_LAST_FRAGMENT, here;
		size_t next = mark & CK_LAST_FRAGMENT ? 0 : CK_MARK; /* of the next fragment */

		j.wire += CK_MARK;
		if (!ck_mark_allowed(mark, j.body) || j.wire + length + next > max)
			return -EPROTO;
		here = ck_min(length, size - j.wire);
		memmove(data + CK_MARK + j.body, data + j.wire, here);
		j.body += here;
		j.wire += here;
		if (here < length)
			break;
		j.complete = mark & CK_LAST_FRAGMENT;
	}
	*joined = j;
	return 0;
}

int ck_fragments_read(struct ck_chan *chan, unsigned char *body, size_t room, size_t *size)
{
	unsigned char bytes[CK_MARK];
	uint32_t mark = 0;
	size_t got = 0;

	while (!(mark & CK_LAST_FRAGMENT)) {
		size_t length;
		int ret = ck_chan_read(chan, bytes, CK_MARK);

		if (ret < 0)
			return ret;
		mark = ck_mark_at(bytes);
		length = mark & ~CK_LAST_FRAGMENT;
		if (!ck_mark_allowed(mark, got) || length > room - got)
			return -EPROTO;
		ret = ck_chan_read(chan, body + got, length);
		if (ret < 0)
			return ret;
		got += length;
	}
	*size = got;
	return 0;
}
