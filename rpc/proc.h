/*
 * rpc/proc.h - the table of messages for both ends: coders, sizes and fields.
 *
 * The array is generated from rpc/driver.api (build/gen/procs.c); the numbers are in gen/numbers.h.
 */
#ifndef CK_RPC_PROC_H
#define CK_RPC_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <rpc/rpc.h>

#include "gen/numbers.h"

enum ck_field_kind {
	CK_FIELD_END,
	CK_FIELD_INT,
	CK_FIELD_UINT,
	CK_FIELD_U64,
	CK_FIELD_FLOAT,
	CK_FIELD_POINTER,
	CK_FIELD_ID,
	CK_FIELD_IDS,
	CK_FIELD_HASH,
	CK_FIELD_BYTES,
	CK_FIELD_STRING,
	CK_FIELD_POD,
	CK_FIELD_BULK,
};

struct ck_field {
	const char *name;
	enum ck_field_kind kind;
	size_t offset; /* in the decoded structure */
};

struct ck_proc {
	const char *name; /* NULL: no such procedure */
	xdrproc_t xdr_args;
	size_t args_size;
	xdrproc_t xdr_res; /* NULL for one-way messages */
	size_t res_size;
	const struct ck_field *in;  /* fields of the arguments, after the head */
	const struct ck_field *out; /* of the result; NULL for none */
	bool one_way;
	bool bulk_in;  /* payload follows the arguments */
	bool bulk_out; /* payload, then an int, follow the result */
	/* the words after the body of the row, see the head of rpc/driver.api */
	bool noerr;  /* reports no error of earlier commands */
	bool quiet;  /* only later messages can tell when its work is done */
	bool shares; /* from then on, other processes may see the session's work */
	bool drains; /* the driver may wait for all work of the context */
	/* needs no context, and runs while the session's gate is closed; NVML's too */
	bool driverless;
	bool light;		/* only puts work into a stream: any thread may carry it out */
	bool launches;		/* starts kernels of the program */
	bool loads;		/* only prepares the launch that follows */
	bool ahead;		/* the client sends several before it reads a reply */
	bool silent;		/* its reply does not have the client print the output of kernels */
	bool unprofiled;	/* serves the profiler */
	bool nomem;		/* its caller finds memory where there is none */
	bool recall;		/* an earlier session of the program may have the answer */
	unsigned char function; /* word of that answer's key that is the function's id; 0: none */
};

extern const struct ck_proc ck_procs[CK_PROC_END];

/* The entry of @number; NULL: none. */
static inline const struct ck_proc *ck_proc(uint32_t number)
{
	return number < CK_PROC_END && ck_procs[number].name ? &ck_procs[number] : NULL;
}

/* Print "name value, name value" for @fields of the decoded @structure into @buf (always
 * terminated, truncated to @size); returns the number of characters. rpc/trace.c */
size_t ck_fields_print(const struct ck_field *fields, const void *structure, char *buf,
		       size_t size);

#endif
