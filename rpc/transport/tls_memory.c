/*
 * rpc/transport/tls_memory.c - the memory that OpenSSL reads and writes in place of a connection;
 * see tls.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rpc/transport/tls.h"
#include "util/util.h"

static int grow_buffer(struct ck_tls_bytes *b, size_t size)
{
	size_t room = ck_max(b->to + size, (size_t)CK_TLS_PIECE + (CK_TLS_PIECE >> 3));
	unsigned char *data;

	if (b->room - b->to >= size)
		return 0;
	data = realloc(b->data, room);
	if (!data)
		return -ENOMEM;
	b->data = data;
	b->room = room;
	return 0;
}

static int memory_write(BIO *bio, const char *data, int size)
{
	struct ck_tls_chan *t = BIO_get_data(bio);

	BIO_clear_retry_flags(bio);
	if (size <= 0 || grow_buffer(&t->out, (size_t)size) < 0)
		return -1;
	memcpy(t->out.data + t->out.to, data, (size_t)size);
	t->out.to += (size_t)size;
	return size;
}

static int memory_read(BIO *bio, char *data, int size)
{
	struct ck_tls_chan *t = BIO_get_data(bio);
	size_t n = t->in.to - t->in.from;

	BIO_clear_retry_flags(bio);
	if (n == 0 || size <= 0) {
		BIO_set_retry_read(bio);
		return -1;
	}
	n = ck_min(n, (size_t)size);
	memcpy(data, t->in.data + t->in.from, n);
	t->in.from += n;
	return (int)n;
}

static long memory_control(BIO *bio, int command, long number, void *pointer)
{
	(void)bio;
	(void)number;
	(void)pointer;
	return command == BIO_CTRL_FLUSH;
}

static int memory_create(BIO *bio)
{
	BIO_set_init(bio, 1);
	return 1;
}

BIO_METHOD *ck_tls_method(void)
{
	BIO_METHOD *method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "channel");

	if (method && BIO_meth_set_write(method, memory_write) &&
	    BIO_meth_set_read(method, memory_read) && BIO_meth_set_ctrl(method, memory_control) &&
	    BIO_meth_set_create(method, memory_create))
		return method;
	BIO_meth_free(method);
	return NULL;
}
