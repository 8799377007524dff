/*
 * tests/fuzz/fuzz_server_peek.c - the first bytes of a connection, before anybody is admitted: what the supervisor
 * makes of them does not depend on how they arrive, and a worker reads no byte beyond the record.
 */
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "server/processes/peek.h"
#include "server/worker/first.h"
#include "tests/fuzz/standalone.h"
#include "tests/unit/rpc_memory_chan.h"

static void check_first(const uint8_t *data, size_t size, const struct cks_peeked *peeked,
			enum cks_peek kind)
{
	struct memory_chan memory;
	struct cks_first first;
	const char *session;
	int ret;

	memory_chan_init(&memory, data, size, SIZE_MAX);
	ret = cks_first_read(&memory.chan, &first);
	CK_FUZZ_CHECK(memory.at <= peeked->record);
	if (ret < 0)
		return;
	CK_FUZZ_CHECK(memory.at == peeked->record && first.xid == peeked->xid);
	CK_FUZZ_CHECK((first.kind == CK_FIRST_LINK) == (kind == CK_PEEK_LINK));
	CK_FUZZ_CHECK((first.kind == CK_FIRST_DIRECT) == (kind == CK_PEEK_DIRECT));
	session = kind == CK_PEEK_DIRECT ? first.direct.session : first.args.session;
	CK_FUZZ_CHECK(memcmp(session, peeked->session, sizeof(peeked->session)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cks_peeked whole = {.xid = 0}, part = {.xid = 0};
	enum cks_peek kind, early;

	if (size > 2 * CK_PEEK_MAX)
		return 0;
	kind = cks_peek(data, size, &whole);
	for (size_t n = 0; n < size; n++) {
		early = cks_peek(data, n, &part);
		CK_FUZZ_CHECK(early == CK_PEEK_MORE || early == kind);
	}
	if (kind < CK_PEEK_NULL)
		return 0;
	CK_FUZZ_CHECK(whole.args <= whole.record && whole.record <= size);
	if (kind == CK_PEEK_JOIN || kind == CK_PEEK_LINK || kind == CK_PEEK_DIRECT)
		check_first(data, size, &whole, kind);
	return 0;
}
