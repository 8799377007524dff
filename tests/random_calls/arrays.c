/* tests/random_calls/arrays.c - arrays: made, copied to and from, looked at, destroyed. */
#include <stdlib.h>
#include <string.h>

#include "tests/random_calls/world.h"

static struct buffer *some_array(struct world *w)
{
	return &w->buffer[BUFFERS + below(w, ARRAYS)];
}

static void make_array(struct world *w, struct buffer *a)
{
	static const CUarray_format formats[] = {[1] = CU_AD_FORMAT_UNSIGNED_INT8,
						 [2] = CU_AD_FORMAT_HALF,
						 [4] = CU_AD_FORMAT_FLOAT};
	unsigned bytes = 1u << below(w, 3), channels = 1u << below(w, 3);
	CUDA_ARRAY3D_DESCRIPTOR shape = {.Width = 1 + below(w, 300),
					 .Height = one_in(w, 4) ? 0 : 1 + below(w, 40),
					 .Format = formats[bytes],
					 .NumChannels = channels};

	if (shape.Height > 0 && one_in(w, 3))
		shape.Depth = 1 + below(w, 5);
	*a = (struct buffer){.unit = bytes * channels};
	memset(&w->order->of[a - w->buffer], 0, sizeof(w->order->of[0]));
	a->width = shape.Width * a->unit;
	a->height = shape.Height > 0 ? shape.Height : 1;
	a->depth = shape.Depth > 0 ? shape.Depth : 1;
	if (CALL(w, cuArray3DCreate_v2, &a->array, &shape) == CUDA_SUCCESS)
		a->size = a->width * a->height * a->depth;
	say(w, "array %d: %zu x %zu x %zu\n", (int)(a - w->buffer), a->width, a->height, a->depth);
}

/* The whole of it, to or from packed host memory, with the call that fits. */
static void move_array(struct world *w, struct buffer *a, unsigned char *bytes, bool up)
{
	CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_HOST,
			   .srcHost = bytes,
			   .srcPitch = a->width,
			   .srcHeight = a->height,
			   .dstMemoryType = CU_MEMORYTYPE_ARRAY,
			   .dstArray = a->array,
			   .WidthInBytes = a->width,
			   .Height = a->height,
			   .Depth = a->depth};
	unsigned s = one_in(w, 2) ? LEGACY : some_stream(w);

	if (!up) {
		c.srcMemoryType = CU_MEMORYTYPE_ARRAY;
		c.srcArray = a->array;
		c.srcHost = NULL;
		c.dstMemoryType = CU_MEMORYTYPE_HOST;
		c.dstHost = bytes;
		c.dstArray = NULL;
		c.dstPitch = a->width;
		c.dstHeight = a->height;
		c.srcPitch = c.srcHeight = 0;
	}
	use_one(w, s, a, up);
	if (a->height * a->depth == 1 && one_in(w, 2)) {
		if (s != LEGACY && up)
			CALL(w, cuMemcpyHtoAAsync_v2, a->array, 0, bytes, a->width, w->stream[s]);
		else if (s != LEGACY)
			CALL(w, cuMemcpyAtoHAsync_v2, bytes, a->array, 0, a->width, w->stream[s]);
		else if (up)
			CALL(w, cuMemcpyHtoA_v2, a->array, 0, bytes, a->width);
		else
			CALL(w, cuMemcpyAtoH_v2, bytes, a->array, 0, a->width);
	} else if (s == LEGACY) {
		CALL(w, cuMemcpy3D_v2, &c);
	} else {
		CALL(w, cuMemcpy3DAsync_v2, &c, w->stream[s]);
	}
	if (!up)
		waited(w, s); /* the memory is pageable */
}

void free_array(struct world *w, struct buffer *a)
{
	use_one(w, HOST, a, true);
	CALL(w, cuArrayDestroy, a->array);
	a->size = 0;
}

/* Destroys an array that no graph names, and makes another one. */
void renew_array(struct world *w)
{
	struct buffer *a = some_array(w);
	unsigned char *bytes;

	if (a->graphs > 0)
		return;
	if (any(a))
		free_array(w, a);
	make_array(w, a);
	bytes = malloc(a->size);
	scribble(w, bytes, a->size);
	if (any(a))
		move_array(w, a, bytes, true);
	free(bytes);
}

void observe_array(struct world *w)
{
	struct buffer *a = some_array(w);
	unsigned char *bytes;

	if (!any(a))
		return;
	bytes = malloc(a->size);
	move_array(w, a, bytes, false);
	say(w, "array %d: %016llx\n", (int)(a - w->buffer),
	    (unsigned long long)digest(bytes, a->size));
	free(bytes);
}

/* One side of a copy: a place in an array. */
static void array_side(struct world *w, struct buffer *a, const CUDA_MEMCPY3D *c, CUarray *array,
		       CUmemorytype *type, size_t at[3])
{
	*array = a->array;
	*type = CU_MEMORYTYPE_ARRAY;
	at[0] = below(w, (unsigned)((a->width - c->WidthInBytes) / a->unit + 1)) * a->unit;
	at[1] = below(w, (unsigned)(a->height - c->Height + 1));
	at[2] = below(w, (unsigned)(a->depth - c->Depth + 1));
}

/* The other side: rows of @b. False: it is too small. */
static bool memory_side(struct world *w, struct buffer *b, const CUDA_MEMCPY3D *c, void **host,
			CUdeviceptr *device, CUmemorytype *type, size_t *pitch, size_t *rows)
{
	*pitch = c->WidthInBytes + below(w, 40);
	*rows = c->Height + below(w, 3);
	*type = on_host(b) && (one_in(w, 2) || !on_device(b)) ? CU_MEMORYTYPE_HOST
							      : CU_MEMORYTYPE_DEVICE;
	*host = *type == CU_MEMORYTYPE_HOST ? b->host : NULL;
	*device = *type == CU_MEMORYTYPE_DEVICE ? b->device : 0;
	return *pitch * *rows * c->Depth <= b->size;
}

/* A box of @a, and of @b too if that is an array. */
static CUDA_MEMCPY3D some_extent(struct world *w, const struct buffer *a, const struct buffer *b)
{
	size_t width = a->width, height = a->height, depth = a->depth;

	if (b->array != NULL) {
		width = b->width < width ? b->width : width;
		height = b->height < height ? b->height : height;
		depth = b->depth < depth ? b->depth : depth;
	}
	return (CUDA_MEMCPY3D){.WidthInBytes =
				       (1 + below(w, (unsigned)(width / a->unit))) * a->unit,
			       .Height = 1 + below(w, (unsigned)height),
			       .Depth = 1 + below(w, (unsigned)depth)};
}

static bool prepare_array_copy(struct world *w, CUDA_MEMCPY3D *c, struct buffer *dst,
			       struct buffer *src)
{
	struct buffer *a = dst->array ? dst : src;
	size_t at[3] = {0};
	bool fits = true;

	*c = some_extent(w, a, a == dst ? src : dst);
	if (dst->array)
		array_side(w, dst, c, &c->dstArray, &c->dstMemoryType, at);
	else
		fits = memory_side(w, dst, c, &c->dstHost, &c->dstDevice, &c->dstMemoryType,
				   &c->dstPitch, &c->dstHeight);
	c->dstXInBytes = at[0], c->dstY = at[1], c->dstZ = at[2];
	memset(at, 0, sizeof(at));
	if (src->array)
		array_side(w, src, c, &c->srcArray, &c->srcMemoryType, at);
	else
		fits = memory_side(w, src, c, (void **)&c->srcHost, &c->srcDevice,
				   &c->srcMemoryType, &c->srcPitch, &c->srcHeight);
	c->srcXInBytes = at[0], c->srcY = at[1], c->srcZ = at[2];
	return fits;
}

static bool pick_array_copy(struct world *w, CUDA_MEMCPY3D *c, struct buffer **dst,
			    struct buffer **src)
{
	struct buffer *a = some_array(w), *b = one_in(w, 4) ? some_array(w) : some_buffer(w, any);
	bool up = one_in(w, 2);

	*dst = up ? a : b;
	*src = up ? b : a;
	return any(a) && any(b) && a != b && (b->array == NULL || b->unit == a->unit) &&
	       prepare_array_copy(w, c, *dst, *src);
}

/* A copy for a node of a graph; false: there is none. */
bool prepare_array_node(struct world *w, CUDA_MEMCPY3D *c, struct use *uses)
{
	struct buffer *dst, *src;

	if (!pick_array_copy(w, c, &dst, &src))
		return false;
	uses[0] = (struct use){src, false};
	uses[1] = (struct use){dst, true};
	return true;
}

void copy_array(struct world *w)
{
	bool wait = w->capture == NULL && one_in(w, 2);
	unsigned s = wait ? LEGACY : some_stream(w), before;
	struct buffer *dst, *src;
	CUDA_MEMCPY3D c;

	if (!pick_array_copy(w, &c, &dst, &src))
		return;
	await_source(w, src);
	use_two(w, s, dst, src);
	before = reads_of(w, s, src);
	if (wait)
		CALL(w, cuMemcpy3D_v2, &c);
	else
		CALL(w, cuMemcpy3DAsync_v2, &c, w->stream[s]);
	returned(w, s, dst, src, before);
}
