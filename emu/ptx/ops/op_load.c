/*
 * emu/ptx/ops/op_load.c - executors of ld and st.
 */
#include "emu/ptx/memory/exec.h"
#include "emu/ptx/ops/op_shared.h"
#include "emu/ptx/ops/ops.h"

static uint64_t load_element(const uint8_t *at, unsigned int type)
{
	switch (ck_ptx_type_bytes(type)) {
	case 1:
		return type == CK_PTX_S8 ? (uint64_t)(int8_t)*at : *at;
	case 2: {
		uint16_t v = __atomic_load_n((const uint16_t *)(const void *)at, __ATOMIC_RELAXED);

		return type == CK_PTX_S16 ? (uint64_t)(int16_t)v : v;
	}
	case 4: {
		uint32_t v = __atomic_load_n((const uint32_t *)(const void *)at, __ATOMIC_RELAXED);

		return type == CK_PTX_S32 ? (uint64_t)(int32_t)v : v;
	}
	default:
		return __atomic_load_n((const uint64_t *)(const void *)at, __ATOMIC_RELAXED);
	}
}

static void store_element(uint8_t *at, unsigned int type, uint64_t value)
{
	switch (ck_ptx_type_bytes(type)) {
	case 1:
		*at = (uint8_t)value;
		break;
	case 2:
		__atomic_store_n((uint16_t *)(void *)at, (uint16_t)value, __ATOMIC_RELAXED);
		break;
	case 4:
		__atomic_store_n((uint32_t *)(void *)at, (uint32_t)value, __ATOMIC_RELAXED);
		break;
	default:
		__atomic_store_n((uint64_t *)(void *)at, value, __ATOMIC_RELAXED);
		break;
	}
}

/*
 * A piece of memory in which most addresses of an instruction are expected to lie: a lane's memory
 * is at base + lane * stride + (address & mask), if that address is at most @room beyond @lo.
 */
struct piece {
	uint64_t mask, lo, room, base, stride;
};

static inline struct piece piece_of(const struct ck_ptx_warp *w, const struct ck_ptx_insn *in,
				    uint32_t size)
{
	const struct ck_ptx_run *run = w->block->run;
	const struct ck_ptx_span *span = &run->ranges[run->range_last];
	struct piece p = {.mask = UINT64_MAX, .lo = span->lo};
	uint64_t bytes = span->hi - span->lo;

	if (in->space == CK_PTX_SHARED) {
		p = (struct piece){.mask = UINT32_MAX,
				   .base = (uint64_t)(uintptr_t)w->block->shared};
		bytes = run->shared_bytes;
	} else if (in->space == CK_PTX_LOCAL) {
		p = (struct piece){.mask = UINT32_MAX,
				   .base = (uint64_t)(uintptr_t)w->local,
				   .stride = w->local_bytes};
		bytes = w->local_bytes;
	} else if (in->space == CK_PTX_PARAM) {
		p = (struct piece){.mask = CK_PTX_OFFSET_MASK,
				   .base = (uint64_t)(uintptr_t)run->params};
		bytes = run->kernel->info.param_bytes;
	}
	/* a check sees every access */
	if (unlikely(w->block->check != NULL))
		bytes = 0;
	if (bytes < size)
		p.lo = UINT64_MAX; /* which no aligned address is */
	p.room = bytes < size ? 0 : bytes - size;
	return p;
}

/* The place of lane @l's @size bytes in the piece, or wherever they are. */
#define PLACE_BYTES(t, size, at)                                                                   \
	uint64_t address = ra[l] + (uint64_t)in->imm;                                              \
	uint64_t cut = address & p.mask;                                                           \
	t *at = (t *)(uintptr_t)(p.base + l * p.stride + cut);                                     \
	if (unlikely(cut - p.lo > p.room || (cut & ((size)-1)))) {                                 \
		uint8_t *found;                                                                    \
		int err = ck_ptx_translate(w, l, in->space, address, size, &found);                \
		if (err)                                                                           \
			return err;                                                                \
		at = (t *)(void *)found;                                                           \
		p = piece_of(w, in, size);                                                         \
	}
#define PLACE(t, at) PLACE_BYTES(t, sizeof(t), at)

/*
 * Most loads and stores of a whole warp are of one place or of elements side by side, at least in
 * each half of it (blocks of 16 x 16 threads). To see that takes a few vector operations; then one
 * check does for all 16 lanes, and the elements are moved together. Elsewhere lane by lane.
 */
#define HALF (CK_PTX_LANES / 2)
enum order { SCATTERED, SAME, ROW };

/* Two lanes of a row, for operations of which a compiler makes no vectors by itself. */
typedef uint64_t lanes __attribute__((vector_size(16), aligned(8), may_alias));

/* Only the bits of @mask: the rest of a register is not part of the address. */
static inline enum order order_of(const uint64_t *ra, uint64_t size, uint64_t mask)
{
	const lanes first = {ra[0], ra[0]}, step = {2 * size, 2 * size};
	lanes next = {ra[0], ra[0] + size}, same = {0}, row = {0};

	for (uint32_t l = 0; l < HALF; l += 2) {
		lanes two = *(const lanes *)(const void *)(ra + l);

		same |= two ^ first;
		row |= two ^ next;
		next += step;
	}
	if (((same[0] | same[1]) & mask) == 0)
		return SAME;
	return ((row[0] | row[1]) & mask) == 0 ? ROW : SCATTERED;
}

/* The memory of @count elements from the first lane's address on; NULL: look lane by lane. */
static inline void *run_of(const struct piece *p, uint64_t address, uint64_t size, uint64_t count)
{
	uint64_t cut = address & p->mask, more = (count - 1) * size;

	if (p->room < more || cut - p->lo > p->room - more || (cut & (size - 1)))
		return NULL;
	return (void *)(uintptr_t)(p->base + cut);
}

/*
 * The same for lane @l and those behind it; a kernel that reads two arrays in alternation changes
 * the piece each time.
 */
static inline void *run_at(struct ck_ptx_warp *w, const struct ck_ptx_insn *in, struct piece *p,
			   uint32_t l, uint64_t size, uint64_t count)
{
	uint64_t address = S(0)[l] + (uint64_t)in->imm;
	void *run = run_of(p, address, size, count);
	uint8_t *at;

	if (likely(run != NULL) || ck_ptx_translate(w, l, in->space, address, (uint32_t)size, &at))
		return run;
	*p = piece_of(w, in, (uint32_t)size);
	return run_of(p, address, size, count);
}

/* Threads of the host share this memory; TSan has to see each element's access with its own
 * size. */
static inline bool can_access_together(const struct ck_ptx_warp *w, uint32_t mask,
				       const struct piece *p)
{
#if defined(__SANITIZE_THREAD__)
	return false;
#endif
	return mask == UINT32_MAX && p->stride == 0 && w->block->check == NULL;
}

#define LOAD(t)                                                                                    \
	static inline bool half_ld_##t(struct ck_ptx_warp *w, const struct ck_ptx_insn *in,        \
				       struct piece *p, uint32_t h)                                \
	{                                                                                          \
		enum order order = order_of(S(0) + h, sizeof(t), p->mask);                         \
		uint32_t count = order == SAME ? 1 : HALF;                                         \
		const t *at = order ? run_at(w, in, p, h, sizeof(t), count) : NULL;                \
		uint64_t *rd = D(0) + h, value;                                                    \
		t values[HALF];                                                                    \
                                                                                                   \
		if (!at)                                                                           \
			return false;                                                              \
		if (order == SAME) {                                                               \
			value = (uint64_t)__atomic_load_n(at, __ATOMIC_RELAXED);                   \
			for (uint32_t l = 0; l < HALF; l++)                                        \
				rd[l] = value;                                                     \
			return true;                                                               \
		}                                                                                  \
		memcpy(values, at, sizeof(values));                                                \
		for (uint32_t l = 0; l < HALF; l++)                                                \
			rd[l] = (uint64_t)values[l];                                               \
		return true;                                                                       \
	}                                                                                          \
                                                                                                   \
	EXECUTOR(ld_##t)                                                                           \
	{                                                                                          \
		const uint64_t *ra = S(0);                                                         \
		uint64_t *rd = D(0);                                                               \
		struct piece p = piece_of(w, in, sizeof(t));                                       \
                                                                                                   \
		if (can_access_together(w, mask, &p))                                              \
			for (uint32_t h = 0; h < CK_PTX_LANES; h += HALF)                          \
				if (half_ld_##t(w, in, &p, h))                                     \
					mask &= ~(0xffffu << h);                                   \
		EACH_LANE(mask, l, {                                                               \
			PLACE(const t, at)                                                         \
			rd[l] = (uint64_t)__atomic_load_n(at, __ATOMIC_RELAXED);                   \
		});                                                                                \
		return 0;                                                                          \
	}

#define STORE(t)                                                                                   \
	static inline bool half_st_##t(struct ck_ptx_warp *w, const struct ck_ptx_insn *in,        \
				       struct piece *p, uint32_t h)                                \
	{                                                                                          \
		bool row = order_of(S(0) + h, sizeof(t), p->mask) == ROW;                          \
		t values[HALF], *at = row ? run_at(w, in, p, h, sizeof(t), HALF) : NULL;           \
		const uint64_t *rb = S(1) + h;                                                     \
                                                                                                   \
		if (!at)                                                                           \
			return false;                                                              \
		for (uint32_t l = 0; l < HALF; l++)                                                \
			values[l] = (t)rb[l];                                                      \
		memcpy(at, values, sizeof(values));                                                \
		return true;                                                                       \
	}                                                                                          \
                                                                                                   \
	EXECUTOR(st_##t)                                                                           \
	{                                                                                          \
		const uint64_t *ra = S(0), *rb = S(1);                                             \
		struct piece p = piece_of(w, in, sizeof(t));                                       \
                                                                                                   \
		if (can_access_together(w, mask, &p))                                              \
			for (uint32_t h = 0; h < CK_PTX_LANES; h += HALF)                          \
				if (half_st_##t(w, in, &p, h))                                     \
					mask &= ~(0xffffu << h);                                   \
		EACH_LANE(mask, l, {                                                               \
			PLACE(t, at)                                                               \
			__atomic_store_n(at, (t)rb[l], __ATOMIC_RELAXED);                          \
		});                                                                                \
		return 0;                                                                          \
	}

LOAD(uint8_t)
LOAD(int8_t)
LOAD(uint16_t)
LOAD(int16_t)
LOAD(uint32_t)
LOAD(int32_t)
LOAD(uint64_t)
STORE(uint8_t)
STORE(uint16_t)
STORE(uint32_t)
STORE(uint64_t)

static ck_ptx_exec load_of(const struct ck_ptx_insn *in)
{
	bool s = ck_ptx_type_class(in->type) == CK_PTX_CLASS_SINT;

	switch (ck_ptx_type_bytes(in->type)) {
	case 1:
		return s ? ld_int8_t : ld_uint8_t;
	case 2:
		return s ? ld_int16_t : ld_uint16_t;
	case 4:
		return s ? ld_int32_t : ld_uint32_t;
	default:
		return ld_uint64_t;
	}
}

static ck_ptx_exec store_of(const struct ck_ptx_insn *in)
{
	switch (ck_ptx_type_bytes(in->type)) {
	case 1:
		return st_uint8_t;
	case 2:
		return st_uint16_t;
	case 4:
		return st_uint32_t;
	default:
		return st_uint64_t;
	}
}

/* Another thread may be about to change it. The fence costs nothing on x86-64, where each load
 * acquires. */
EXECUTOR(ld_volatile)
{
	int err;

	ck_ptx_spins(w);
	err = load_of(in)(w, in, mask);
	atomic_thread_fence(memory_order_acquire);
	return err;
}

EXECUTOR(st_release)
{
	atomic_thread_fence(memory_order_release);
	return store_of(in)(w, in, mask);
}

/* One vector for all lanes from @h on. */
static bool half_ld_vector(struct ck_ptx_warp *w, const struct ck_ptx_insn *in, struct piece *p,
			   uint32_t h)
{
	uint32_t size = ck_ptx_type_bytes(in->type);
	uint64_t values[4];
	const uint8_t *at;

	if (in->vec > CK_ARRAY_SIZE(values) || order_of(S(0) + h, 0, p->mask) != SAME)
		return false;
	at = run_at(w, in, p, h, size * in->vec, 1);
	if (!at)
		return false;
	for (unsigned int i = 0; i < in->vec; i++)
		values[i] = load_element(at + i * size, in->type);
	for (unsigned int i = 0; i < in->vec; i++)
		for (uint32_t l = h; l < h + HALF; l++)
			D(i)[l] = values[i];
	return true;
}

EXECUTOR(ld_vector)
{
	const uint64_t *ra = S(0);
	uint32_t size = ck_ptx_type_bytes(in->type);
	struct piece p = piece_of(w, in, size * in->vec);

	if (can_access_together(w, mask, &p))
		for (uint32_t h = 0; h < CK_PTX_LANES; h += HALF)
			if (half_ld_vector(w, in, &p, h))
				mask &= ~(0xffffu << h);
	EACH_LANE(mask, l, {
		PLACE_BYTES(uint8_t, size * in->vec, at)
		for (unsigned int i = 0; i < in->vec; i++)
			D(i)[l] = load_element(at + i * size, in->type);
	});
	if (in->mod[CK_PTX_MOD_SEM] > CK_PTX_WEAK)
		atomic_thread_fence(memory_order_acquire);
	return 0;
}

EXECUTOR(st_vector)
{
	const uint64_t *ra = S(0);
	uint32_t size = ck_ptx_type_bytes(in->type);
	struct piece p = piece_of(w, in, size * in->vec);

	if (in->mod[CK_PTX_MOD_SEM] == CK_PTX_RELEASE)
		atomic_thread_fence(memory_order_release);
	EACH_LANE(mask, l, {
		PLACE_BYTES(uint8_t, size * in->vec, at)
		for (unsigned int i = 0; i < in->vec; i++)
			store_element(at + i * size, in->type, S(1 + i)[l]);
	});
	return 0;
}

/* For .sc there are fences. */
ck_ptx_exec ck_ptx_pick_ld(struct ck_ptx_insn *in, unsigned int operands __attribute__((unused)))
{
	unsigned int sem = in->mod[CK_PTX_MOD_SEM];

	if (sem == CK_PTX_RELEASE || sem == CK_PTX_ACQ_REL || sem == CK_PTX_SC)
		return NULL;
	if (ck_ptx_type_bytes(in->type) * in->vec > 16)
		return NULL;
	if (in->type == CK_PTX_B128)
		return ck_ptx_ld_wide;
	if (in->vec > 1)
		return ld_vector;
	return sem > CK_PTX_WEAK && in->space != CK_PTX_LOCAL ? ld_volatile : load_of(in);
}

ck_ptx_exec ck_ptx_pick_st(struct ck_ptx_insn *in, unsigned int operands __attribute__((unused)))
{
	unsigned int sem = in->mod[CK_PTX_MOD_SEM];

	if (sem == CK_PTX_ACQUIRE || sem == CK_PTX_ACQ_REL || sem == CK_PTX_SC ||
	    in->mod[CK_PTX_MOD_SPACE] == CK_PTX_CONST)
		return NULL;
	if (ck_ptx_type_bytes(in->type) * in->vec > 16)
		return NULL;
	if (in->type == CK_PTX_B128)
		return ck_ptx_st_wide;
	if (in->vec > 1)
		return st_vector;
	return sem == CK_PTX_RELEASE ? st_release : store_of(in);
}
