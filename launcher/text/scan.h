/*
 * launcher/text/scan.h - find the end of a JSON object while it arrives, and its flat arrays.
 *
 * A request is a small document around large arrays of numbers. A general JSON library would make
 * an object on the heap of each number; so the arrays that hold no other array or object, the
 * leaves, are found here, and jansson gets the document with each leaf replaced by [its index].
 * Since every leaf is replaced, an array of one integer in that document is always an index.
 *
 * The scan does not judge the text between the brackets: its readers do (jansson,
 * ckl_elements_next).
 */
#ifndef CK_LAUNCHER_TEXT_SCAN_H
#define CK_LAUNCHER_TEXT_SCAN_H

#include <stdbool.h>
#include <stddef.h>

#define CK_SCAN_DEPTH 64

/* A flat array: text[start] is behind its bracket, text[end] the closing one. */
struct ckl_leaf {
	size_t start, end;
	size_t count; /* elements, by its commas */
};

/* A scan; zeroed it is at the start. Free with ckl_scan_free. */
struct ckl_scan {
	size_t start, at; /* of the object; scanned so far */
	unsigned depth;
	bool string, escape, blank; /* inside a string; behind a backslash; no element yet */
	bool flat; /* the innermost bracket is a '[' and nothing was opened since */
	char closing[CK_SCAN_DEPTH];
	struct ckl_leaf leaf; /* the one that may be open */
	struct ckl_leaf *leaves;
	size_t count, room;
};

/*
 * Scan the bytes that have come since the last call, text[scan->at] to text[size - 1]. 1: the
 * object is complete, text[scan->start] to text[scan->at - 1]; 0: more is needed; -EINVAL: no JSON
 * object; -E2BIG: nested too deeply; -ENOMEM.
 */
int ckl_scan(struct ckl_scan *scan, const char *text, size_t size);

/* The complete object with its leaves replaced, malloc'ed, *size bytes; NULL without memory. */
char *ckl_scan_outline(const struct ckl_scan *scan, const char *text, size_t *size);

/* Commas among @size bytes. */
size_t ckl_scan_commas(const char *text, size_t size);

/* Free the leaves and start anew. */
void ckl_scan_free(struct ckl_scan *scan);

#endif
