/*
 * tests/fuzz/fuzz_server_peek.c - the first bytes of a connection, before anybody is admitted: what
 * the supervisor makes of them does not depend on how they arrive, and a worker reads no byte
 * beyond the record.
 */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "server/processes/connection_peek.h"
#include "server/worker/first_message.h"
#include "tests/fuzz/standalone.h"
#include "tests/unit/rpc_memory_chan.h"

static void check_first(const uint8_t *data, size_t size, const struct cks_peeked *peeked,
			enum cks_connection_peek kind)
{
	struct memory_chan memory;
	struct cks_first_message first;
	const char *session;
	int ret;

	memory_chan_init(&memory, data, size, SIZE_MAX);
	ret = cks_first_message_read(&memory.chan, &first);
	CK_FUZZ_CHECK(memory.at <= peeked->record);
	if (ret < 0)
		return;
	CK_FUZZ_CHECK(memory.at == peeked->record && first.xid == peeked->xid);
	CK_FUZZ_CHECK((first.kind == CK_FIRST_LINK) == (kind == CK_PEEK_LINK));
	CK_FUZZ_CHECK((first.kind == CK_FIRST_DIRECT) == (kind == CK_PEEK_DIRECT));
	session = kind == CK_PEEK_DIRECT ? first.direct.session : first.args.session;
	CK_FUZZ_CHECK(memcmp(session, peeked->session, sizeof(peeked->session)) == 0);
}

/* Peeking joins the fragments of the record, in a copy as in the supervisor. */
static enum cks_connection_peek peek(unsigned char *joined, const uint8_t *data, size_t size,
				     struct cks_peeked *peeked)
{
	memcpy(joined, data, size);
	return cks_connection_peek(joined, size, peeked);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cks_peeked whole = {.xid = 0}, part = {.xid = 0};
	unsigned char joined[2 * CK_PEEK_MAX];
	enum cks_connection_peek kind, early;

	if (size > 2 * CK_PEEK_MAX)
		return 0;
	kind = peek(joined, data, size, &whole);
	for (size_t n = 0; n < size; n++) {
		early = peek(joined, data, n, &part);
		CK_FUZZ_CHECK(early == CK_PEEK_MORE || early == kind);
	}
	if (kind < CK_PEEK_NULL)
		return 0;
	CK_FUZZ_CHECK(whole.args + whole.args_size <= whole.record && whole.record <= size);
	if (kind == CK_PEEK_JOIN || kind == CK_PEEK_LINK || kind == CK_PEEK_DIRECT)
		check_first(data, size, &whole, kind);
	return 0;
}
