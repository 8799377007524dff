/*
 * tests/e2e/throw.h - what the thrower's files share: random numbers, messages and their fate.
 */
#ifndef CK_TEST_THROW_H
#define CK_TEST_THROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LAST 0x80000000u     /* in a record mark: no further fragment */
#define THROW_MAX (3u << 20) /* bytes of one message */
#define ARGS_WORDS 2048	     /* room for any structure of arguments */

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
	uint64_t random; /* state of the generator */
	uint64_t seq;	 /* of the last command sent */
	uint64_t memory; /* address of THROW_MEMORY bytes on the device */
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

/* --- a session (throw_session.c) */
#define LANES 3	    /* the command connection, two of calls */
#define BATCH 65536 /* bytes that are collected before they are sent */
#define ROOM (BATCH + 2 * THROW_MAX)

struct lane {
	struct ck_chan *chan;
	unsigned char *out; /* to be sent: from out_at to out_size */
	size_t out_size, out_at;
	uint64_t calls, replies;
	unsigned char mark[4]; /* of the reply that arrives */
	size_t mark_size, left;
	bool closed;
};

struct session {
	struct lane lane[LANES]; /* 0: commands */
	struct world world;
	const char *address;
};

/* A whole session with its objects; 0 or -errno. To be closed, whatever was returned. */
int session_open(struct session *s, const char *address);
void session_close(struct session *s);

/* What is collected is sent by pump. */
void push(struct lane *l, const void *bytes, size_t size);

struct ck_hash;
void send_image(struct session *s, const char *image, size_t size, struct ck_hash *hash);
void load(struct session *s, uint64_t id, bool library, const struct ck_hash *hash,
	  uint64_t function);

/* Send all that has been collected, and with @answers wait for every reply. False: the session
 * was closed, or has stood still for too long. */
bool pump(struct session *s, bool answers);

/* Whether the server closes the command connection, in time. */
bool wait_closed(struct session *s);

#endif
