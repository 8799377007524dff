/*
 * launcher/request.h - a request as read from a message's JSON document.
 *
 * Everything is checked here that can be without a GPU and without the kernel. A request points
 * into the message, which must live as long.
 */
#ifndef CK_LAUNCHER_REQUEST_H
#define CK_LAUNCHER_REQUEST_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "launcher/fail.h"
#include "launcher/scan.h"
#include "launcher/type.h"

#define CK_ARGS_MAX 4096 /* no kernel has more parameters: 32764 bytes of pointers */

enum ck_command {
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
enum ck_source {
	CK_FROM_TEXT,	/* text, count: elements of a flat JSON array, or one number */
	CK_FROM_BYTES,	/* data: in the frame */
	CK_FROM_BASE64, /* text */
	CK_FROM_SHM,	/* text: name of a POSIX shared memory object */
	CK_FROM_GPU,	/* text: name of an array that stayed there */
	CK_FROM_ZEROES,
};

/* One argument of a kernel, or one array to read or free. */
struct ck_arg {
	const char *name; /* NULL for scalars */
	bool array;
	enum ck_type type; /* CK_TYPE_NONE: a scalar, as the parameter has it */
	enum ck_source source;
	const char *text; /* of one scalar NULL when it is in number */
	size_t text_size;
	bool list; /* text is a list, as of a vector that is passed by value */
	const void *data;
	size_t count, size; /* elements; bytes (0 for CK_FROM_GPU and scalars without a type) */
	bool returned, keep;
	char number[36]; /* text of a number that jansson has read */
};

struct ck_request {
	enum ck_command command;
	uint64_t id; /* of poll, wait, cancel */
	bool async, timing;
	uint32_t timeout_ms; /* 0: none */
	const char *module;  /* path of the file, or NULL */
	const char *source;  /* text of a kernel in its place: CUDA C++ or PTX */
	const char *kernel;
	json_t *options; /* list of strings for the compiler, or NULL */
	uint32_t grid[3], block[3], shared;
	struct ck_arg *args;
	size_t argc;
	json_t *root; /* owns the strings */
	struct ck_scan scan;
};

/*
 * Read a complete message of @size bytes, a JSON object or a frame, and what @defaults (a JSON
 * object, or NULL) adds to it. @scan: that of the text, if its end was found by one; it is moved.
 * On a failure *request is empty and @fail says why. Free with ck_request_free.
 */
int ck_request_read(struct ck_request *request, const char *message, size_t size,
		    struct ck_scan *scan, json_t *defaults, struct ck_fail *fail);

/* The same without the arguments, for code that passes the message on. */
int ck_request_peek(struct ck_request *request, const char *message, size_t size,
		    struct ck_scan *scan, json_t *defaults, struct ck_fail *fail);

/*
 * Of a peeked CK_DEFAULTS (a JSON message, not a frame): the defaults that it sets, an object for
 * later requests' @defaults; new reference. NULL on a failure.
 */
json_t *ck_request_defaults(struct ck_request *request, const char *message, struct ck_fail *fail);

void ck_request_free(struct ck_request *request);

/* --- between request.c, arguments.c and array.c */

/* A message being read. */
struct ck_reading {
	struct ck_request *request;
	const char *text; /* that the scan is of */
	const char *data; /* data section of a frame, or NULL */
	size_t data_size;
	struct ck_fail *fail;
};

/* The leaf that stands for @value in the outline, or NULL when it is something else. */
const struct ck_leaf *ck_reading_leaf(const struct ck_reading *r, const json_t *value);

/* A list of strings: a new reference. NULL: it is none; the failure names it @what. */
json_t *ck_reading_strings(const struct ck_reading *r, const json_t *value, const char *what);

/* A whole number up to @limit, by its key; *out stays as it is where there is none. */
int ck_reading_number(const struct ck_reading *r, const json_t *object, const char *key,
		      uint64_t limit, uint64_t *out);

/* A string by its key; *out stays as it is where there is none. */
int ck_reading_string(const struct ck_reading *r, const json_t *object, const char *key,
		      const char **out);

/* The arguments of a launch, in the kernel's order. */
int ck_reading_arguments(struct ck_reading *r);

/* One more argument, all zero; NULL on a failure. Earlier pointers may be void after it. */
struct ck_arg *ck_reading_add(struct ck_reading *r);

/* An array by its name and its value in the document. */
int ck_reading_array(struct ck_reading *r, const char *name, json_t *value);

/* "type" of an object, if it has one. */
int ck_reading_type(struct ck_reading *r, struct ck_arg *arg, const json_t *object);

#endif
