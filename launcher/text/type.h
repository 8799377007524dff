/*
 * launcher/text/type.h - types of elements, and elements between text and memory.
 */
#ifndef CK_LAUNCHER_TEXT_TYPE_H
#define CK_LAUNCHER_TEXT_TYPE_H

#include <stdbool.h>
#include <stddef.h>

#include "launcher/text/failure.h"

enum ckl_type {
	CK_TYPE_NONE, /* not said */
	CK_TYPE_F16,
	CK_TYPE_BF16,
	CK_TYPE_F32,
	CK_TYPE_F64,
	CK_TYPE_I8,
	CK_TYPE_I16,
	CK_TYPE_I32,
	CK_TYPE_I64,
	CK_TYPE_U8,
	CK_TYPE_U16,
	CK_TYPE_U32,
	CK_TYPE_U64,
	CK_TYPE_BOOL, /* a byte, 0 or 1 */
};

/* By name: f32, i64, bool ...; also float, double, int. CK_TYPE_NONE for any other word. */
enum ckl_type ckl_type_find(const char *name);
const char *ckl_type_name(enum ckl_type type);
size_t ckl_type_size(enum ckl_type type);
bool ckl_type_is_float(enum ckl_type type);

/*
 * One element from its text: a number, true, false, or (without its quotes) a word for a value that
 * is not finite. False: it does not fit. @any_sign: an integer type takes a number that fits with
 * or without sign, as for a parameter of which only the size is known.
 */
bool ckl_type_read(enum ckl_type type, const char *at, size_t size, bool any_sign, void *out);

/* A walk over the elements of a JSON array without nested ones, from behind its bracket. */
struct ckl_elements {
	const char *at, *end; /* end: the closing bracket */
	bool begun;
};

/* 1: the next element's text, of a string without its quotes; 0: the end; -EINVAL: not JSON. */
int ckl_elements_next(struct ckl_elements *it, const char **at, size_t *size);

/*
 * All @count elements of such an array into memory; @what names it in the message. A large array
 * is read on several processors.
 */
int ckl_type_read_all(enum ckl_type type, const char *text, size_t size, size_t count, void *out,
		      const char *what, struct ckl_fail *fail);

/*
 * Its way for a large array: in parallel, in pieces of about @piece bytes of text. False: an
 * element is wrong, or memory is short; *out is then undefined.
 */
bool ckl_type_read_parallel(enum ckl_type type, const char *text, size_t size, size_t count,
			    void *out, size_t piece);

/* Room that an element needs as text, with the comma behind it. */
#define CK_TYPE_TEXT 34

/* Print one element; returns the bytes, at most CK_TYPE_TEXT - 2. */
size_t ckl_type_print(enum ckl_type type, const void *element, char *out);

#endif
