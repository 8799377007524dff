/*
 * launcher/request/request.h - a request as read from a message's JSON document.
 *
 * Everything is checked here that can be without a GPU and without the kernel. A request points
 * into the message, which must live as long.
 */
#ifndef CK_LAUNCHER_REQUEST_REQUEST_H
#define CK_LAUNCHER_REQUEST_REQUEST_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "launcher/text/failure.h"
#include "launcher/text/scan.h"
#include "launcher/text/type.h"

#define CK_ARGS_MAX 4096 /* no kernel has more parameters: 32764 bytes of pointers */

enum ckl_command {
	CK_LAUNCH,
	CK_READ,     /* fetch arrays that stayed on the GPU */
	CK_FREE,     /* let them go */
	CK_POLL,     /* how far an asynchronous launch is */
	CK_WAIT,     /* for its result */
	CK_CANCEL,   /* end it */
	CK_DEFAULTS, /* set the defaults of this connection's later requests */
	CK_PING,
	CK_QUIT,
};

/* Where the bytes of an argument come from. */
enum ckl_source {
	CK_FROM_TEXT,	/* text, count: elements of a flat JSON array, or one number */
	CK_FROM_BYTES,	/* data: in the frame */
	CK_FROM_BASE64, /* text */
	CK_FROM_SHM,	/* text: name of a POSIX shared memory object */
	CK_FROM_GPU,	/* text: name of an array that stayed there */
	CK_FROM_ZEROES,
};

/* One argument of a kernel, or one array to read or free. */
struct ckl_arg {
	const char *name; /* NULL for scalars */
	bool array;
	enum ckl_type type; /* CK_TYPE_NONE: a scalar, as the parameter has it */
	enum ckl_source source;
	const char *text; /* of one scalar NULL when it is in number */
	size_t text_size;
	bool list; /* text is a list, as of a vector that is passed by value */
	const void *data;
	size_t count, size; /* elements; bytes (0 for CK_FROM_GPU and scalars without a type) */
	bool returned, keep;
	char number[36]; /* text of a number that jansson has read */
};

struct ckl_request {
	enum ckl_command command;
	uint64_t id; /* of poll, wait, cancel */
	bool async, timing;
	uint32_t timeout_ms; /* 0: none */
	const char *module;  /* path of the file, or NULL */
	const char *source;  /* text of a kernel in its place: CUDA C++ or PTX */
	const char *kernel;
	json_t *options; /* list of strings for the compiler, or NULL */
	uint32_t grid[3], block[3], shared;
	struct ckl_arg *args;
	size_t argc;
	json_t *root; /* owns the strings */
	struct ckl_scan scan;
};

/*
 * Read a complete message of @size bytes, a JSON object or a frame, with the additions of @defaults
 * (a JSON object, or NULL). @scan: that of the text, if its end was found by one; it is moved. On a
 * failure *request is empty and @fail says why. Free with ckl_request_free.
 */
int ckl_request_read(struct ckl_request *request, const char *message, size_t size,
		     struct ckl_scan *scan, json_t *defaults, struct ckl_fail *fail);

/* The same without the arguments, for code that passes the message on. */
int ckl_request_peek(struct ckl_request *request, const char *message, size_t size,
		     struct ckl_scan *scan, json_t *defaults, struct ckl_fail *fail);

/*
 * Of a peeked CK_DEFAULTS (a JSON message, not a frame): the defaults that it sets, an object for
 * later requests' @defaults; new reference. NULL on a failure.
 */
json_t *ckl_request_defaults(struct ckl_request *request, const char *message,
			     struct ckl_fail *fail);

void ckl_request_free(struct ckl_request *request);

/* --- between request.c, arguments.c and array.c */

/* A message being read. */
struct ckl_reading {
	struct ckl_request *request;
	const char *text; /* that the scan is of */
	const char *data; /* data section of a frame, or NULL */
	size_t data_size;
	struct ckl_fail *fail;
};

/* The leaf that stands for @value in the outline, or NULL when it is something else. */
const struct ckl_leaf *ckl_reading_leaf(const struct ckl_reading *r, const json_t *value);

/* A list of strings: a new reference. NULL: it is none; the failure names it @what. */
json_t *ckl_reading_strings(const struct ckl_reading *r, const json_t *value, const char *what);

/* A whole number up to @limit, by its key; *out stays as it is where there is none. */
int ckl_reading_number(const struct ckl_reading *r, const json_t *object, const char *key,
		       uint64_t limit, uint64_t *out);

/* A string by its key; *out stays as it is where there is none. */
int ckl_reading_string(const struct ckl_reading *r, const json_t *object, const char *key,
		       const char **out);

/* The arguments of a launch, in the kernel's order. */
int ckl_reading_arguments(struct ckl_reading *r);

/* One more argument, all zero; NULL on a failure. Earlier pointers may be void after it. */
struct ckl_arg *ckl_reading_add(struct ckl_reading *r);

/* An array by its name and its value in the document. */
int ckl_reading_array(struct ckl_reading *r, const char *name, json_t *value);

/* "type" of an object, if it has one. */
int ckl_reading_type(struct ckl_reading *r, struct ckl_arg *arg, const json_t *object);

#endif
