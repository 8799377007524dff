/*
 * emu/ptx/ops/op_wide.c - see op_shared.h.
 *
 * x86-64 loads and stores 16 bytes as a whole where it has AVX. Other processors may not; there a
 * strong load or store is an exchange.
 */
#include "emu/ptx/ops/op_shared.h"

#ifdef __x86_64__
#define WIDE __attribute__((target("cx16")))
#define WHOLE true
#else
#define WIDE
#define WHOLE false
#endif

typedef uint64_t pair __attribute__((vector_size(16)));

/* The value before; @to is written if that is @expected. */
WIDE static inline unsigned __int128 exchange(void *at, unsigned __int128 expected,
					      unsigned __int128 to)
{
	return __sync_val_compare_and_swap((unsigned __int128 *)at, expected, to);
}

WIDE int ck_ptx_ld_wide(struct ck_ptx_warp *w, const struct ck_ptx_insn *in, uint32_t mask)
{
	const uint64_t *ra = S(0);
	uint64_t *low = D(0), *high = D(1);
	bool strong = in->mod[CK_PTX_MOD_SEM] > CK_PTX_WEAK;

	if (strong)
		ck_ptx_spins(w);
	EACH_LANE(mask, l, {
		uint8_t *at;
		int err = ck_ptx_translate(w, l, in->space, ra[l] + (uint64_t)in->imm, 16, &at);

		if (unlikely(err))
			return err;
		if (WHOLE || !strong) {
			pair value = *(volatile const pair *)(void *)at;

			low[l] = value[0];
			high[l] = value[1];
		} else {
			unsigned __int128 value = exchange(at, 0, 0);

			low[l] = (uint64_t)value;
			high[l] = (uint64_t)(value >> 64);
		}
	});
	if (strong)
		atomic_thread_fence(memory_order_acquire);
	return 0;
}

WIDE int ck_ptx_st_wide(struct ck_ptx_warp *w, const struct ck_ptx_insn *in, uint32_t mask)
{
	const uint64_t *ra = S(0), *low = S(1), *high = S(2);
	bool strong = in->mod[CK_PTX_MOD_SEM] > CK_PTX_WEAK;

	if (in->mod[CK_PTX_MOD_SEM] == CK_PTX_RELEASE)
		atomic_thread_fence(memory_order_release);
	EACH_LANE(mask, l, {
		unsigned __int128 value = (unsigned __int128)high[l] << 64 | low[l], old = 0, was;
		uint8_t *at;
		int err = ck_ptx_translate(w, l, in->space, ra[l] + (uint64_t)in->imm, 16, &at);

		if (unlikely(err))
			return err;
		if (WHOLE || !strong) {
			*(volatile pair *)(void *)at = (pair){low[l], high[l]};
			continue;
		}
		do {
			was = old;
			old = exchange(at, was, value);
		} while (old != was);
	});
	return 0;
}

WIDE int ck_ptx_atomic_wide(struct ck_ptx_warp *w, const struct ck_ptx_insn *in, uint32_t mask)
{
	const uint64_t *ra = S(0), *low = S(1), *high = S(2), *new_low = S(3), *new_high = S(4);
	bool cas = in->mod[CK_PTX_MOD_AOP] == CK_PTX_CAS, failed = false;
	uint64_t *to_low = D(0), *to_high = D(1);

	EACH_LANE(mask, l, {
		unsigned __int128 b = (unsigned __int128)high[l] << 64 | low[l], old = b, was;
		unsigned __int128 c = cas ? (unsigned __int128)new_high[l] << 64 | new_low[l] : b;
		uint8_t *at;
		int err = ck_ptx_translate(w, l, in->space, ra[l] + (uint64_t)in->imm, 16, &at);

		if (unlikely(err))
			return err;
		do {
			was = old;
			old = exchange(at, was, c);
		} while (!cas && old != was);
		failed |= cas ? old != b : old == b;
		to_low[l] = (uint64_t)old;
		to_high[l] = (uint64_t)(old >> 64);
	});
	if (failed)
		ck_ptx_spins(w);
	return 0;
}
