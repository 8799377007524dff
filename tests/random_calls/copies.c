/* tests/random_calls/copies.c - copies and fills of all forms between memory of all kinds. */
#include <stdlib.h>
#include <string.h>

#include "tests/random_calls/world.h"

/* An address by which a copy of any kind may name the buffer. */
static CUdeviceptr address_of(struct world *w, struct buffer *b)
{
	if (b->alias != 0 && one_in(w, 2))
		return b->alias;
	return b->device != 0 ? b->device : (CUdeviceptr)b->host;
}

static size_t some_offset(struct world *w, struct buffer *b)
{
	return one_in(w, 3) ? 0 : below(w, (unsigned)b->size);
}

struct piece {
	struct buffer *dst, *src;
	size_t to, from, size;
};

/* Two places of two buffers, or of one if they do not overlap. Of host memory on both sides one
 * waits first: such copies may be carried out by the host at once. */
static struct piece some_piece(struct world *w)
{
	struct piece p;
	size_t room;

	do {
		p.dst = some_buffer(w, any);
		p.src = some_buffer(w, any);
	} while (!on_device(p.dst) && !on_device(p.src));
	p.to = some_offset(w, p.dst);
	p.from = some_offset(w, p.src);
	room = p.dst->size - p.to < p.src->size - p.from ? p.dst->size - p.to
							 : p.src->size - p.from;
	if (p.dst == p.src)
		room = p.to == p.from	      ? 0
		       : p.to < p.from	      ? p.from - p.to < room ? p.from - p.to : room
		       : p.to - p.from < room ? p.to - p.from
					      : room;
	p.size = room == 0 ? 0 : 1 + some_size(w, room - 1);
	if (on_host(p.dst) && on_host(p.src) && w->capture == NULL)
		use_two(w, HOST, p.dst, p.src);
	return p;
}

/* The copy may read pageable memory before the stream has come to it. */
void await_source(struct world *w, struct buffer *src)
{
	if (src->kind == PAGEABLE && w->capture == NULL)
		use_one(w, HOST, src, false);
}

static bool by_host(const struct buffer *b, bool host_names)
{
	return on_host(b) && (host_names || !on_device(b));
}

/* The copy in the stream @s, with the call that the sides ask for. */
static void send(struct world *w, unsigned s, const struct piece *p, bool wait)
{
	bool names = one_in(w, 2), d = by_host(p->dst, names), h = by_host(p->src, names) && !d;
	CUdeviceptr dst = address_of(w, p->dst) + p->to, src = address_of(w, p->src) + p->from;
	unsigned char *dst_host = p->dst->host + p->to, *src_host = p->src->host + p->from;

	if (one_in(w, 3) || (d && !on_device(p->src))) {
		if (wait)
			CALL(w, cuMemcpy, dst, src, p->size);
		else
			CALL(w, cuMemcpyAsync, dst, src, p->size, w->stream[s]);
	} else if (wait) {
		if (d)
			CALL(w, cuMemcpyDtoH_v2, dst_host, src, p->size);
		else if (h)
			CALL(w, cuMemcpyHtoD_v2, dst, src_host, p->size);
		else
			CALL(w, cuMemcpyDtoD_v2, dst, src, p->size);
	} else if (d) {
		CALL(w, cuMemcpyDtoHAsync_v2, dst_host, src, p->size, w->stream[s]);
	} else if (h) {
		CALL(w, cuMemcpyHtoDAsync_v2, dst, src_host, p->size, w->stream[s]);
	} else {
		CALL(w, cuMemcpyDtoDAsync_v2, dst, src, p->size, w->stream[s]);
	}
}

/* What is over when a copy has returned: of pageable memory all; of other host memory, if the copy
 * is synchronous. */
void returned(struct world *w, unsigned s, struct buffer *dst, struct buffer *src, unsigned before)
{
	if (dst->kind == PAGEABLE)
		waited(w, s);
	if (src->kind == PAGEABLE)
		read_is_over(w, s, src, before);
}

void copy(struct world *w)
{
	struct piece p = some_piece(w);
	unsigned s = some_stream(w), before;
	bool wait = w->capture == NULL && one_in(w, 2);

	if (wait)
		s = LEGACY;
	if (p.size == 0)
		return;
	await_source(w, p.src);
	use_two(w, s, p.dst, p.src);
	before = reads_of(w, s, p.src);
	send(w, s, &p, wait);
	returned(w, s, p.dst, p.src, before);
}

static void side_of(CUmemorytype *type, void **host, CUdeviceptr *device, struct world *w,
		    struct buffer *b)
{
	if (one_in(w, 3)) {
		*type = CU_MEMORYTYPE_UNIFIED;
		*device = address_of(w, b);
	} else if (by_host(b, one_in(w, 2))) {
		*type = CU_MEMORYTYPE_HOST;
		*host = b->host;
	} else {
		*type = CU_MEMORYTYPE_DEVICE;
		*device = address_of(w, b);
	}
}

struct box {
	size_t width, height, depth, pitch[2], rows[2], x[2], y[2];
};

/* A box that fits into both buffers; false: there is none. */
static bool some_box(struct world *w, const struct piece *p, struct box *box)
{
	const size_t size[2] = {p->dst->size, p->src->size};

	box->width = 1 + below(w, 300);
	box->height = 1 + below(w, 20);
	box->depth = 1 + below(w, 3);
	for (int i = 0; i < 2; i++) {
		box->x[i] = below(w, 40);
		box->y[i] = below(w, 3);
		box->pitch[i] = box->width + box->x[i] + below(w, 50);
		box->rows[i] = box->height + box->y[i] + below(w, 3);
		if (box->pitch[i] * box->rows[i] * box->depth > size[i])
			return false;
	}
	return true;
}

static CUDA_MEMCPY3D box_copy(struct world *w, const struct piece *p, const struct box *b)
{
	trace(w, "  box of %zu x %zu x %zu, pitch %zu to %zu, from %zu, %zu to %zu, %zu", b->width,
	      b->height, b->depth, b->pitch[1], b->pitch[0], b->x[1], b->y[1], b->x[0], b->y[0]);
	CUDA_MEMCPY3D c = {.dstXInBytes = b->x[0],
			   .dstY = b->y[0],
			   .dstPitch = b->pitch[0],
			   .dstHeight = b->rows[0],
			   .srcXInBytes = b->x[1],
			   .srcY = b->y[1],
			   .srcPitch = b->pitch[1],
			   .srcHeight = b->rows[1],
			   .WidthInBytes = b->width,
			   .Height = b->height,
			   .Depth = b->depth};

	side_of(&c.dstMemoryType, &c.dstHost, &c.dstDevice, w, p->dst);
	side_of(&c.srcMemoryType, (void **)&c.srcHost, &c.srcDevice, w, p->src);
	return c;
}

static CUDA_MEMCPY2D flat(const CUDA_MEMCPY3D *c)
{
	return (CUDA_MEMCPY2D){.dstXInBytes = c->dstXInBytes,
			       .dstY = c->dstY,
			       .dstMemoryType = c->dstMemoryType,
			       .dstHost = c->dstHost,
			       .dstDevice = c->dstDevice,
			       .dstPitch = c->dstPitch,
			       .srcXInBytes = c->srcXInBytes,
			       .srcY = c->srcY,
			       .srcMemoryType = c->srcMemoryType,
			       .srcHost = c->srcHost,
			       .srcDevice = c->srcDevice,
			       .srcPitch = c->srcPitch,
			       .WidthInBytes = c->WidthInBytes,
			       .Height = c->Height};
}

/* A copy for a node of a graph; false: there is none. */
bool prepare_copy(struct world *w, CUDA_MEMCPY3D *copy, struct use *uses)
{
	struct piece p = some_piece(w);
	struct box box;

	if (p.dst == p.src || !some_box(w, &p, &box))
		return false;
	*copy = box_copy(w, &p, &box);
	uses[0] = (struct use){p.src, false};
	uses[1] = (struct use){p.dst, true};
	return true;
}

void copy_rectangle(struct world *w)
{
	struct piece p = some_piece(w);
	bool wait = w->capture == NULL && one_in(w, 2);
	unsigned s = wait ? LEGACY : some_stream(w), before;
	struct box box;
	CUDA_MEMCPY3D c;
	CUDA_MEMCPY2D c2;

	if (p.dst == p.src || !some_box(w, &p, &box))
		return;
	await_source(w, p.src);
	use_two(w, s, p.dst, p.src);
	before = reads_of(w, s, p.src);
	c = box_copy(w, &p, &box);
	c2 = flat(&c);
	if (box.depth > 1 && wait)
		CALL(w, cuMemcpy3D_v2, &c);
	else if (box.depth > 1)
		CALL(w, cuMemcpy3DAsync_v2, &c, w->stream[s]);
	else if (wait && one_in(w, 2))
		CALL(w, cuMemcpy2DUnaligned_v2, &c2);
	else if (wait)
		CALL(w, cuMemcpy2D_v2, &c2);
	else
		CALL(w, cuMemcpy2DAsync_v2, &c2, w->stream[s]);
	returned(w, s, p.dst, p.src, before);
}

/* Copies in a batch have no order among themselves: each destination is a buffer of its own, and no
 * source. */
void copy_batch(struct world *w)
{
	enum { MOST = 4 };
	unsigned s = FIRST_CREATED + below(w, STREAMS - FIRST_CREATED), n = 0;
	CUmemcpyAttributes how = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
	CUdeviceptr dst[MOST], src[MOST];
	size_t size[MOST], first = 0, failed = 0;
	struct buffer *from = some_buffer(w, any), *to[MOST];
	struct use uses[MOST + 1] = {{from, false}};

	for (unsigned i = 0; i < MOST; i++) {
		to[n] = some_buffer(w, on_device);
		for (unsigned j = 0; j < n; j++)
			if (to[j] == to[n])
				to[n] = from;
		if (to[n] == from || (on_host(to[n]) && on_host(from)))
			continue;
		size[n] = 1 +
			  below(w, (unsigned)(to[n]->size < from->size ? to[n]->size : from->size));
		dst[n] = address_of(w, to[n]) + to[n]->size - size[n];
		src[n] = address_of(w, from);
		uses[n + 1] = (struct use){to[n], true};
		n++;
	}
	if (n == 0)
		return;
	await_source(w, from);
	submit(w, s, uses, n + 1);
	CALL(w, cuMemcpyBatchAsync, dst, src, size, n, &how, &first, 1, &failed, w->stream[s]);
}

static void fill_rows(struct world *w, unsigned s, struct buffer *b, CUdeviceptr at, size_t room,
		      bool wait)
{
	size_t width = 1 + below(w, 200), pitch = width + below(w, 60), rows = 1 + below(w, 9);
	unsigned value = (unsigned)draw(w);

	if (pitch * rows > room)
		return;
	use_one(w, s, b, true);
	if (wait)
		CALL(w, cuMemsetD2D8_v2, at, pitch, (unsigned char)value, width, rows);
	else
		CALL(w, cuMemsetD2D8Async, at, pitch, (unsigned char)value, width, rows,
		     w->stream[s]);
}

void fill(struct world *w)
{
	struct buffer *b = some_buffer(w, on_device);
	bool wait = w->capture == NULL && one_in(w, 2);
	unsigned s = wait ? LEGACY : some_stream(w), value = (unsigned)draw(w),
		 unit = 1u << below(w, 3);
	CUdeviceptr at = (address_of(w, b) + some_offset(w, b)) / unit * unit,
		    start = b->alias && at >= b->alias && at < b->alias + b->size ? b->alias
										  : b->device;
	size_t room, count;

	if (at < start)
		at += unit;
	if (at >= start + b->size || (room = start + b->size - at) < unit)
		return;
	count = 1 + some_size(w, room / unit - 1);
	if (one_in(w, 4)) {
		fill_rows(w, s, b, at, room, wait);
		return;
	}
	use_one(w, s, b, true);
	if (unit == 1)
		wait ? CALL(w, cuMemsetD8_v2, at, (unsigned char)value, count)
		     : CALL(w, cuMemsetD8Async, at, (unsigned char)value, count, w->stream[s]);
	else if (unit == 2)
		wait ? CALL(w, cuMemsetD16_v2, at, (unsigned short)value, count)
		     : CALL(w, cuMemsetD16Async, at, (unsigned short)value, count, w->stream[s]);
	else
		wait ? CALL(w, cuMemsetD32_v2, at, value, count)
		     : CALL(w, cuMemsetD32Async, at, value, count, w->stream[s]);
}
