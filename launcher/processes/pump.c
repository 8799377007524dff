/*
 * launcher/processes/pump.c - stdin to a daemon, message by message; see pump.h.
 *
 * Each part of a message is sent on as soon as it arrives. The pump looks for the end with the
 * daemon's code, to know which reply the message will have.
 */
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher/processes/input.h"
#include "launcher/processes/pump.h"
#include "launcher/request/request.h"
#include "util/process/fd.h"

/* How a request is replied to. */
enum kind {
	PLAIN,
	ABOUT, /* by the result of an asynchronous launch */
	NEVER,
};

struct entry {
	struct entry *next;
	enum kind kind;
};

struct ckl_pump {
	int sock;
	struct ckl_input input;
	struct ckl_block block;
	pthread_mutex_t lock;	    /* of the members below */
	struct entry *first, *last; /* requests that have no reply yet, in order */
	size_t results;		    /* of asynchronous launches, that are still to come */
	bool all;		    /* nothing more is sent */
};

void ckl_pump_await(void)
{
	struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};

	poll(&p, 1, -1);
}

/* A message begins. Until its end is there, its reply can only be an error. */
static bool entry_add(struct ckl_pump *pump)
{
	struct entry *entry = calloc(1, sizeof(*entry));

	if (!entry)
		return false;
	pthread_mutex_lock(&pump->lock);
	if (pump->last)
		pump->last->next = entry;
	else
		pump->first = entry;
	pump->last = entry;
	pthread_mutex_unlock(&pump->lock);
	return true;
}

/* The message that was begun is of that kind, and maybe the last one that has a reply. */
static void entry_is(struct ckl_pump *pump, enum kind kind, bool all)
{
	pthread_mutex_lock(&pump->lock);
	if (pump->last)
		pump->last->kind = kind;
	pump->all = all;
	pthread_mutex_unlock(&pump->lock);
}

static void first_drop(struct ckl_pump *pump)
{
	struct entry *first = pump->first;

	pump->first = first->next;
	if (pump->last == first)
		pump->last = NULL;
	free(first);
}

/* The kind of a complete message; *quits: nothing behind it is read. */
static enum kind message_kind(struct ckl_pump *pump, bool *quits)
{
	bool frame = pump->input.frame;
	struct ckl_fail fail = {0};
	struct ckl_request request;
	enum kind kind = PLAIN;
	json_t *defaults;

	if (ckl_request_peek(&request, pump->block.map, pump->input.have,
			     frame ? NULL : &pump->input.scan, NULL, &fail) < 0)
		return PLAIN;
	*quits = request.command == CK_QUIT;
	if (request.command == CK_DEFAULTS && !frame) {
		defaults = ckl_request_defaults(&request, pump->block.map, &fail);
		kind = defaults ? NEVER : PLAIN;
		json_decref(defaults);
	} else if (request.command > CK_FREE && request.command != CK_PING) {
		kind = *quits ? NEVER : request.command == CK_DEFAULTS ? PLAIN : ABOUT;
	}
	ckl_request_free(&request);
	return kind;
}

/*
 * Send the bytes behind the first *sent; if it is no message, all that was read. False: no daemon.
 */
static bool forward_bytes(struct ckl_pump *pump, size_t *sent, bool wrong)
{
	const struct ckl_input *input = &pump->input;
	size_t size = input->have - *sent;

	if (size > 0 && ck_fd_write_full(pump->sock, pump->block.map + *sent, size) < 0)
		return false;
	*sent = input->have;
	return !wrong || ck_fd_write_full(pump->sock, input->pending + input->pending_at,
					  input->pending_size) == 0;
}

/* One message. False: it was the last. */
static bool message_pass(struct ckl_pump *pump)
{
	struct ckl_input *input = &pump->input;
	bool begun = false, quits = false;
	struct ckl_fail fail = {0};
	size_t sent = 0;
	int ret = 0;

	ckl_input_begin(input, 0);
	while (ret == 0 && !input->ended) {
		if (input->pending_size == 0)
			ckl_pump_await();
		ret = ckl_input_read(input, &pump->block, &fail);
		if (!begun && (ret != 0 || input->have > 0) && !entry_add(pump))
			return false;
		begun = begun || ret != 0 || input->have > 0;
		if (ret < 0)
			entry_is(pump, PLAIN, true);
		if (ret == 1) {
			enum kind kind = message_kind(pump, &quits);

			entry_is(pump, kind, quits);
		}
		if (!forward_bytes(pump, &sent, ret < 0))
			return false;
	}
	ckl_block_trim(&pump->block);
	return ret == 1 && !quits;
}

static void *pump_run(void *argument)
{
	struct ckl_pump *pump = argument;

	while (message_pass(pump))
		;
	pthread_mutex_lock(&pump->lock);
	pump->all = pump->all || pump->input.ended;
	pthread_mutex_unlock(&pump->lock);
	shutdown(pump->sock, SHUT_WR);
	return NULL;
}

struct ckl_pump *ckl_pump_start(int sock)
{
	static struct ckl_pump pump = {.lock = PTHREAD_MUTEX_INITIALIZER};
	pthread_t thread;

	pump.sock = sock;
	/* The daemon decides how much is too much. */
	if (ckl_block_make(&pump.block, 0) < 0 ||
	    ckl_input_open(&pump.input, STDIN_FILENO, UINT64_MAX / 4) < 0 ||
	    pthread_create(&thread, NULL, pump_run, &pump))
		return NULL;
	pthread_detach(thread);
	return &pump;
}

void ckl_pump_replied(struct ckl_pump *pump, enum ckl_pump_status status)
{
	enum kind kind;

	pthread_mutex_lock(&pump->lock);
	while (pump->first && pump->first->kind == NEVER)
		first_drop(pump);
	kind = pump->first ? pump->first->kind : NEVER;
	if (status == CK_PUMP_QUEUED && kind == PLAIN)
		pump->results++;
	if (status == CK_PUMP_DONE && pump->results > 0)
		pump->results--;
	/* A result that comes where no launch was asked for is one of the end. */
	if (kind == ABOUT || (kind == PLAIN && status != CK_PUMP_DONE))
		first_drop(pump);
	pthread_mutex_unlock(&pump->lock);
}

size_t ckl_pump_missing(struct ckl_pump *pump, bool *all)
{
	size_t count;

	pthread_mutex_lock(&pump->lock);
	count = pump->results;
	for (const struct entry *entry = pump->first; entry; entry = entry->next)
		count += entry->kind != NEVER;
	*all = pump->all;
	pthread_mutex_unlock(&pump->lock);
	return count;
}
