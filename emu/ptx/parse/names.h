/*
 * emu/ptx/parse/names.h - the names of a text, by scope: inner ones hide outer ones.
 */
#ifndef CK_EMU_PTX_PARSE_NAMES_H
#define CK_EMU_PTX_PARSE_NAMES_H

#include <stddef.h>
#include <stdint.h>

enum ck_ptx_name_kind {
	CK_PTX_NAME_REG,    /* value: its row */
	CK_PTX_NAME_FAMILY, /* %r<n>: rows[n], 0 where not used yet */
	CK_PTX_NAME_VAR,    /* value: index of a module variable */
	CK_PTX_NAME_SLOT,   /* value: offset in the frame's local bytes; .param of a call, .local */
	CK_PTX_NAME_KPARAM, /* value: offset in the kernel's parameter block */
	CK_PTX_NAME_FUNC,   /* value: index of a function */
	CK_PTX_NAME_LABEL,  /* value: instruction */
	CK_PTX_NAME_TABLE,  /* value: index of a branch table */
	CK_PTX_NAME_PROTO,  /* .callprototype, .calltargets */
};

struct ck_ptx_name {
	const char *text; /* of the input; not terminated */
	size_t size;
	enum ck_ptx_name_kind kind;
	unsigned int type;     /* of a register */
	unsigned int depth;    /* scope */
	unsigned int is_param; /* a SLOT that is a .param, not a .local */
	int64_t value;
	uint64_t bytes; /* size of a SLOT or KPARAM; count of a FAMILY */
	int32_t *rows;
	uint32_t hash;
	struct ck_ptx_name *next, *older; /* same bucket; declared before */
};

#define CK_PTX_NAME_BUCKETS 4096

struct ck_ptx_names {
	struct ck_ptx_name *buckets[CK_PTX_NAME_BUCKETS];
	struct ck_ptx_name *newest;
};

/* Declare a name of scope @depth; NULL when memory is short. */
struct ck_ptx_name *ck_ptx_names_add(struct ck_ptx_names *names, const char *text, size_t size,
				     enum ck_ptx_name_kind kind, unsigned int depth);

/* The innermost name of that text, or NULL. */
struct ck_ptx_name *ck_ptx_names_find(const struct ck_ptx_names *names, const char *text,
				      size_t size);

/* Forget the names of scope @depth and of deeper ones. */
void ck_ptx_names_pop(struct ck_ptx_names *names, unsigned int depth);

#endif
