/*
 * tests/e2e/throw.h - what the thrower's files share: random numbers, messages and their fate.
 */
#ifndef CK_TEST_THROW_H
#define CK_TEST_THROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define THROW_MAX (3u << 20) /* bytes of one message */

/* Ids of the objects that a session has before anything is thrown. */
enum {
	ID_CONTEXT = 11,
	ID_MODULE,
	ID_LIBRARY,
	ID_FUNCTION,
	ID_KERNEL,
	ID_STREAM,
	ID_EVENT,
	ID_FREE, /* nothing has it; ids thrown are mostly below ID_END */
	ID_END = 60
};

/* What a server that does as it says makes of a message. */
enum fate {
	GOES_ON, /* carried out, refused or failed: the session lives */
	ENDS,	 /* the session is closed */
	UNKNOWN	 /* the rest is waited for, or the session ends by its own will: say no more */
};

struct world {
	uint64_t random;  /* state of the generator */
	uint64_t seq;	  /* of the last command sent */
	uint64_t memory;  /* address of THROW_MEMORY bytes on the device */
};

#define THROW_MEMORY 65536u

struct message {
	unsigned char *bytes; /* room for THROW_MAX */
	size_t size;
	bool command; /* for the command connection; else for a call lane */
	enum fate fate;
};

uint32_t draw(struct world *w, uint32_t below); /* 0 to @below - 1; @below is not 0 */
uint64_t draw_number(struct world *w);		/* one of those that break things */
void draw_bytes(struct world *w, void *out, size_t size);

/* A message of any procedure with plausible values, one in two of them mutated (throw_make.c). */
void message_make(struct world *w, struct message *m);

/* What becomes of the @m that stands in its buffer; sets m->fate. */
void message_judge(const struct world *w, struct message *m);

/* Images: @size bytes of PTX or something like it; good: the one that a session begins with. */
size_t image_make(struct world *w, char *out, size_t size);
extern const char image_good[];

#endif
