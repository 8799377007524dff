/*
 * tests/fuzz/fuzz_rpc_tls_secret.c - a connection that joins a session with its secret: which
 * session a ClientHello names, and what the worker's end makes of one that does not have the
 * secret.
 *
 * No input has the secret, so no handshake may go on: each ends with an error, or waits for more.
 */
#include <errno.h>
#include <string.h>

#include "rpc/tls.h"
#include "tests/fuzz/standalone.h"
#include "tests/unit/rpc_memory_chan.h"

#define RECORD_HEAD 5
#define RECORD_MOST 16384

static const unsigned char id[CK_TLS_SESSION] = "a public id....";

/* Takes all bytes sent, and counts the records that are no alerts. */
static int answers;

static int memory_writev(struct ck_chan *chan, struct iovec *iov, int count, int fd)
{
	(void)chan;
	(void)fd;
	for (int i = 0; i < count; i++)
		answers += iov[i].iov_len > 0 &&
			   ((const unsigned char *)iov[i].iov_base)[0] == CK_TLS_FIRST_BYTE;
	return 0;
}

static void memory_close(struct ck_chan *chan)
{
	(void)chan;
}

static const struct ck_transport_ops ops = {
	.name = "memory", .read = memory_read, .writev = memory_writev, .close = memory_close};

static struct ck_tls *session_context(void)
{
	static const unsigned char secret[CK_TLS_SECRET] = "no input has it, not even a part";
	static struct ck_tls *tls;
	char why[CK_TLS_WHY];

	if (!tls)
		CK_FUZZ_CHECK(ck_tls_create_session(id, secret, &tls, why) == 0);
	return tls;
}

static void shake_hands(const uint8_t *data, size_t size)
{
	struct memory_chan memory;
	struct ck_chan *chan;
	char why[CK_TLS_WHY];

	memory_chan_init(&memory, data, size, SIZE_MAX);
	memory.chan.ops = &ops;
	answers = 0;
	CK_FUZZ_CHECK(ck_tls_open(session_context(), NULL, &memory.chan, &chan) == 0);
	CK_FUZZ_CHECK(ck_tls_finish(chan, why) < 0);
	CK_FUZZ_CHECK(!ck_tls_by_secret(chan));
	ck_chan_close(chan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned char session[CK_TLS_SESSION], again[CK_TLS_SESSION];
	size_t record;
	bool named;

	if (size > RECORD_HEAD + RECORD_MOST)
		return 0;
	named = ck_tls_hello_session(data, size, session);
	if (named) { /* by the first record alone */
		record = RECORD_HEAD + ((size_t)data[3] << 8 | data[4]);
		CK_FUZZ_CHECK(record <= size && ck_tls_hello_session(data, record, again));
		CK_FUZZ_CHECK(memcmp(session, again, sizeof(session)) == 0);
		CK_FUZZ_CHECK(!ck_tls_hello_session(data, record - 1, again));
	}
	shake_hands(data, size);
	return 0;
}
