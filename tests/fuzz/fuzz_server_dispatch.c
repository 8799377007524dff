/*
 * tests/fuzz/fuzz_server_dispatch.c - any bytes as a command connection or a call lane of a
 * session whose driver has a few working functions and some objects to name.
 *
 * The first byte chooses the connection (bit 0) and whether every message gets a right record
 * mark and call header in front (bit 1), so that the mutations reach the arguments. Promises: no
 * fault, no leak, and the dispatcher returns when the stream ends.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "rpc/proc.h"
#include "server/dispatch.h"
#include "server/memory.h"
#include "server/modcache.h"
#include "tests/fuzz/standalone.h"
#include "tests/unit/server_fake.h"

#define STREAM_MAX (192u << 10) /* fits a socket's buffer: the writer need not be a thread */
#define OBJECT 16		/* ids from here on name something */

static struct ck_session *make_session(void)
{
	static int objects[8];
	struct ck_session *session = NULL;
	struct ck_modcache *cache = NULL;

	fake_install();
	if (ck_modcache_open("/proc/no-such-place", 1 << 20, &cache) < 0 ||
	    ck_session_create(cache, -1, 1, &session) < 0)
		abort();
	for (int kind = CK_KIND_CONTEXT; kind <= CK_KIND_KERNEL; kind++)
		ck_handles_put(session->handles, (uint64_t)(OBJECT + kind), (enum ck_kind)kind,
			       OBJECT + CK_KIND_CONTEXT, &objects[kind]);
	return session;
}

/* Messages made of the input: two bytes of procedure, one of length, then the arguments. */
static size_t frame(const uint8_t *data, size_t size, uint8_t *out)
{
	size_t at = 0;

	while (size >= 3 && at + 44 + 255 < STREAM_MAX) {
		size_t n = data[2] < size - 3 ? data[2] : size - 3;
		uint32_t proc = (uint32_t)(data[0] << 8 | data[1]) % CK_PROC_END;
		const uint32_t words[] = { htonl(0x80000000u | (uint32_t)(40 + n)), 0, 0, htonl(2),
					   htonl(CK_PROGRAM), htonl(CK_VERSION), htonl(proc), 0, 0,
					   0, 0 };

		memcpy(out + at, words, sizeof(words));
		memcpy(out + at + sizeof(words), data + 3, n);
		at += sizeof(words) + n;
		data += 3 + n;
		size -= 3 + n;
	}
	return at;
}

/* Only the server's end stays: nobody reads its answers, but they are taken. */
static void *swallow(void *data)
{
	char bytes[4096];

	while (read((int)(intptr_t)data, bytes, sizeof(bytes)) > 0)
		;
	return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t stream[STREAM_MAX];
	struct ck_session *session;
	struct ck_reader *reader;
	struct ck_chan *chan;
	pthread_t thread;
	int pair[2];
	size_t n;

	if (size < 1)
		return 0;
	if (data[0] & 2) {
		n = frame(data + 1, size - 1, stream);
	} else {
		n = size - 1 < STREAM_MAX ? size - 1 : STREAM_MAX;
		memcpy(stream, data + 1, n);
	}
	session = make_session();
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0 || ck_chan_adopt(pair[0], &chan) < 0 ||
	    ck_reader_create(chan, &reader) < 0)
		abort();
	if (pthread_create(&thread, NULL, swallow, (void *)(intptr_t)pair[1]) != 0)
		abort();
	for (size_t at = 0; at < n;) {
		ssize_t sent = send(pair[1], stream + at, n - at, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (sent <= 0)
			break; /* the rest does not fit: a stream that ends early */
		at += (size_t)sent;
	}
	shutdown(pair[1], SHUT_WR);
	if (data[0] & 1)
		ck_dispatch_commands(session, chan, reader);
	else
		ck_dispatch_calls(session, chan, reader);
	ck_chan_shutdown(chan);
	pthread_join(thread, NULL);
	ck_reader_destroy(reader);
	ck_chan_close(chan);
	close(pair[1]);
	ck_session_destroy(session);
	return 0;
}
