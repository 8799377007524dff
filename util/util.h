/*
 * util/util.h - the small macros that every folder uses.
 */
#ifndef CK_UTIL_UTIL_H
#define CK_UTIL_UTIL_H

#include <stdatomic.h>
#include <stddef.h>

#ifndef likely
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#endif

/* All symbols are hidden by default; this marks those that a shared library exports. */
#define CK_EXPORT __attribute__((visibility("default")))

/* Elements of a true array; refuses to compile for a pointer. */
#define CK_ARRAY_SIZE(a)                                                                           \
	(sizeof(a) / sizeof((a)[0]) +                                                              \
	 0 * sizeof(char[1 -                                                                       \
			 2 * __builtin_types_compatible_p(__typeof__(a), __typeof__(&(a)[0]))]))

/* Both evaluate their arguments once; the result has the common type of the two. */
#define ck_min(a, b)                                                                               \
	__extension__({                                                                            \
		__typeof__(a) ck_a_ = (a);                                                         \
		__typeof__(b) ck_b_ = (b);                                                         \
		ck_a_ < ck_b_ ? ck_a_ : ck_b_;                                                     \
	})
#define ck_max(a, b)                                                                               \
	__extension__({                                                                            \
		__typeof__(a) ck_a_ = (a);                                                         \
		__typeof__(b) ck_b_ = (b);                                                         \
		ck_a_ > ck_b_ ? ck_a_ : ck_b_;                                                     \
	})

/* Raise *@at, an atomic number, to @to, unless it is as high already. */
#define ck_atomic_lift(at, to)                                                                     \
	__extension__({                                                                            \
		__typeof__(to) ck_to_ = (to), ck_was_ = atomic_load(at);                           \
		while (ck_was_ < ck_to_ && !atomic_compare_exchange_weak((at), &ck_was_, ck_to_))  \
			;                                                                          \
	})

/* Store a + b (a * b) in *sum (*product); true when it does not fit the type of the output. */
#define ck_add_overflow(a, b, sum) __builtin_add_overflow(a, b, sum)
#define ck_mul_overflow(a, b, product) __builtin_mul_overflow(a, b, product)

/* x rounded up to a multiple of align, a power of two; the caller knows that it cannot wrap. */
#define CK_ALIGN_UP(x, align) (((x) + ((__typeof__(x))(align)-1)) & ~((__typeof__(x))(align)-1))

#ifndef container_of
#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))
#endif

#endif
