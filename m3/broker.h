/*
 * m3/broker.h - the broker's internal interface. One thread and one poll loop. Outside of m3/, only
 * the callers of ck_m3_broker_main need it.
 *
 * The broker has memory, but no context: it makes physical memory, keeps it and hands out
 * descriptors of it. The copier, a process of its own, does the work that accesses bytes.
 */
#ifndef CK_M3_BROKER_H
#define CK_M3_BROKER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "m3/driver.h"
#include "m3/message.h"

struct ck_m3_broker_options {
	const char *driver;
	int listener; /* a listening socket, which becomes the broker's */
	unsigned int workers_first, workers_last; /* users that are trusted too; 0: none */
	uint64_t quota_bytes, quota_regions; /* of a principal, unless set otherwise; 0: none */
	uint64_t idle_s; /* end after so long without clients and regions; 0: never */
	/* Called once it can serve, unless NULL. */
	void (*ready)(const struct ck_m3_broker_options *options);
	int ready_fd; /* for @ready */
};

/* Run until SIGTERM, SIGINT or a halt; the exit status. */
int ck_m3_broker_main(const struct ck_m3_broker_options *options);
/* The process that copies; its socket is descriptor 3. The exit status. */
int ck_m3_copier_main(const char *driver);
/* The command that starts this program as the copier; the driver is appended. */
#define CK_M3_COPIER_OPTION "--m3-copier"
#define CK_M3_COPIER_FD 3

struct ck_m3_job;
struct ck_m3_copier;

/* Who owns memory and is charged for it; is forgotten when nothing is left to know of it. */
struct ck_m3_principal {
	struct ck_m3_principal *next;
	char name[M3_PRINCIPAL_MAX];
	uint64_t quota_bytes, quota_regions;
	uint64_t bytes, regions;  /* charged now */
	unsigned int descriptors; /* in deposits */
	unsigned int connections;
	unsigned int sockets; /* connections of the user whom the kernel names, ended ones too */
	unsigned int uses;    /* connections, ended ones too, and grants that name it */
};

struct ck_m3_grant {
	struct ck_m3_grant *next;
	struct ck_m3_principal *principal;
	unsigned int access;
};

/* The part of a region on one device. */
struct ck_m3_part {
	CUmemGenericAllocationHandle handle;
	int fd; /* the memory as it is handed out */
	int device;
};

/*
 * A region: one piece of memory, or when it is striped one on each of several devices, all of one
 * size. Its struct stays while a job uses it or a dead client's process may.
 */
struct ck_m3_piece {
	struct ck_m3_piece *next; /* in order of their making */
	m3_rid rid;
	struct ck_m3_part parts[M3_DEVICES_MAX];
	unsigned int part_count;
	uint64_t part_size, size;	       /* size: of all parts */
	bool gone;			       /* the memory has been given back */
	struct ck_m3_principal *owner, *payer; /* payer: or NULL */
	struct ck_m3_grant *grants;
	char name[M3_NAME_MAX]; /* empty: none, or no more */
	unsigned int mode, flags;
	bool creating, sealed, unlinked;
	bool detached;		 /* its own reference */
	unsigned int refs, maps; /* of all holds */
	unsigned int jobs;	 /* of the copier, under way */
	unsigned int draining;	 /* connections that are gone and whose process may still map it */
	unsigned int readers;	 /* leases */
	struct ck_m3_reference *writer;
	bool has_event;
	unsigned char event[M3_EVENT_SIZE];
	int64_t born_ms;
};

/* The references of one connection to one piece. */
struct ck_m3_reference {
	struct ck_m3_reference *next;
	struct ck_m3_piece *piece;
	unsigned int refs, maps, access;
	unsigned int lease; /* enum m3_lease_kind */
	bool made;	    /* it is the maker's */
	bool given;	    /* it has had the descriptor */
};

struct ck_m3_deposit {
	struct ck_m3_deposit *next;
	uint64_t id;
	unsigned char key[CK_M3_KEY];
	int fd; /* -1: the bytes are all there is */
	uint32_t size;
	unsigned char bytes[CK_M3_BLOB_MAX];
};

struct ck_m3_conn {
	struct ck_m3_conn *next;
	int fd;	   /* -1: gone; one of a process is kept until that is, too */
	int pidfd; /* -1: the process cannot be watched */
	pid_t pid;
	bool trusted; /* the broker's own user, or root: other parts of Cricket are */
	bool greeted, registered, closing;
	struct ck_m3_principal *user; /* as the kernel says */
	struct ck_m3_principal *principal;
	struct ck_m3_principal *payer; /* who is charged besides; NULL: no one */
	int device;		       /* that it wants, or -1 */
	unsigned int events;	       /* enum m3_event_mask */
	struct ck_m3_reference *holds;
	struct ck_m3_deposit *deposits;
	unsigned int deposit_count;
	struct ck_m3_job *job; /* its answer comes when the job is done */
	bool parked;	       /* @question is tried again when something changes */
	int64_t deadline;      /* of a parked one */
	struct ck_m3_request question;
};

struct ck_m3_broker {
	struct ck_m3_driver driver;
	const struct ck_m3_broker_options *options;
	struct ck_m3_copier *copier;
	uint64_t epoch, serial;
	uint64_t used[M3_DEVICES_MAX];
	struct ck_m3_piece *pieces;
	struct ck_m3_principal *principals;
	struct ck_m3_conn *conns;
	unsigned int conn_count;
	int signals;
	int reserve;	/* a descriptor to take a connection with when there are no more */
	int64_t paused; /* until when no client is accepted */
	bool changed;	/* parked questions may have an answer now */
	bool stop;
};

/* --- piece.c: regions and their rights */

/* The principal of that name, which is made when it is new; NULL: out of memory. */
struct ck_m3_principal *ck_m3_principal_get(struct ck_m3_broker *b, const char *name);
/* Something may have been its last use. */
void ck_m3_principal_check(struct ck_m3_broker *b, struct ck_m3_principal *principal);
uint64_t ck_m3_number(struct ck_m3_broker *b); /* never given before */

/*
 * New memory of @size rounded bytes on each of @count devices, its content undefined; charged to
 * @owner. m3_status.
 */
int ck_m3_piece_create(struct ck_m3_broker *b, const struct ck_m3_conn *conn, const int *devices,
		       unsigned int count, uint64_t size, bool rdma, struct ck_m3_piece **piece);
struct ck_m3_piece *ck_m3_piece_find(struct ck_m3_broker *b, m3_rid rid, int *status);
/* By name: the principal's own, and unless @own_only those that others let it see. */
struct ck_m3_piece *ck_m3_piece_named(struct ck_m3_broker *b, const char *name,
				      const struct ck_m3_principal *principal, bool own_only);
unsigned int ck_m3_piece_access(const struct ck_m3_piece *piece,
				const struct ck_m3_principal *principal);
/* @part: of the device in question. */
void ck_m3_piece_info(const struct ck_m3_broker *b, const struct ck_m3_piece *piece,
		      const struct ck_m3_principal *principal, unsigned int part, m3_info *info);
/* Something may have been its last use: give the memory back, then forget it. */
void ck_m3_piece_check(struct ck_m3_broker *b, struct ck_m3_piece *piece);
int ck_m3_granularity(struct ck_m3_broker *b, int device, bool recommended, uint64_t *out);

/* --- references.c: references of connections */

struct ck_m3_reference *ck_m3_reference_find(struct ck_m3_conn *conn,
					     const struct ck_m3_piece *piece);
/* One more reference with @access; NULL: out of memory. */
struct ck_m3_reference *ck_m3_reference_add(struct ck_m3_conn *conn, struct ck_m3_piece *piece,
					    unsigned int access);
void ck_m3_reference_release(struct ck_m3_broker *b, struct ck_m3_conn *conn,
			     struct ck_m3_reference *hold);
void ck_m3_reference_unlease(struct ck_m3_broker *b, struct ck_m3_reference *hold);
int ck_m3_reference_lease(struct ck_m3_reference *hold, unsigned int kind); /* M3_EBUSY: not now */
/* The connection has ended; true: its process is alive and may still map something. */
bool ck_m3_holds_end(struct ck_m3_broker *b, struct ck_m3_conn *conn);
/* Both have ended, and are of one process, which lives: it need not be watched twice. */
void ck_m3_holds_merge(struct ck_m3_conn *to, struct ck_m3_conn *from);
/* And now the process has ended. */
void ck_m3_holds_drained(struct ck_m3_broker *b, struct ck_m3_conn *conn);

/* --- serve*.c: requests */

/* A handler's return value besides a status. */
#define CK_M3_LATER 1	 /* no answer yet: parked, or a job will give it */
#define CK_M3_ANSWERED 2 /* a job has given it */

struct ck_m3_ask {
	struct ck_m3_broker *b;
	struct ck_m3_conn *conn;
	const struct ck_m3_request *q;
	const unsigned char *data;
	int fd; /* that came with it; a handler that keeps it sets this to -1 */
	bool again;
	struct ck_m3_reply reply;
	const void *back; /* the data behind the reply */
	size_t back_size;
	int back_fd;
};

void ck_m3_serve(struct ck_m3_broker *b, struct ck_m3_conn *conn, const struct ck_m3_question *q,
		 size_t size, int fd);
void ck_m3_serve_again(struct ck_m3_broker *b, struct ck_m3_conn *conn);
int ck_m3_serve_region(struct ck_m3_ask *ask); /* ops that name a region by number */
int ck_m3_serve_alloc(struct ck_m3_ask *ask);
int ck_m3_serve_open(struct ck_m3_ask *ask);
int ck_m3_serve_unlink(struct ck_m3_ask *ask);
int ck_m3_serve_round(struct ck_m3_ask *ask);
int ck_m3_serve_topology(struct ck_m3_ask *ask);
int ck_m3_serve_list(struct ck_m3_ask *ask);
int ck_m3_serve_quota(struct ck_m3_ask *ask, bool set);
int ck_m3_serve_bill(struct ck_m3_ask *ask);
int ck_m3_serve_deposit(struct ck_m3_ask *ask);
void ck_m3_deposits_end(struct ck_m3_conn *conn);
void ck_m3_answer(struct ck_m3_broker *b, struct ck_m3_conn *conn, const struct ck_m3_reply *reply,
		  const void *data, size_t size, int fd);
/*
 * The device that a request names, by UUID or by the broker's number; -1: none, M3_EINVAL: unknown.
 */
int ck_m3_device_of(const struct ck_m3_broker *b, const struct ck_m3_request *q, int *device);
/* @bytes as the size of an allocation on @device: rounded up, 0 as 1; M3_EINVAL on overflow. */
int ck_m3_round(struct ck_m3_broker *b, int device, uint64_t bytes, bool recommended,
		uint64_t *rounded, uint64_t *granularity);
uint64_t ck_m3_device_bytes(const struct ck_m3_broker *b, int device);
bool ck_m3_reaches(const struct ck_m3_broker *b, int from, int to);
/*
 * Notify the subscribers of @event: those of @principal unless NULL that may have @piece unless
 * NULL.
 */
void ck_m3_notify(struct ck_m3_broker *b, unsigned int event, const struct ck_m3_piece *piece,
		  const struct ck_m3_principal *principal);

/* --- copier.c: the process that touches bytes */

/*
 * The copier is started when it is first needed, and again when it has ended. @driver NULL: never.
 */
struct ck_m3_copier *ck_m3_copier_create(const char *driver);
void ck_m3_copier_destroy(struct ck_m3_copier *copier);
/*
 * Queue the work of @ask (op READ, WRITE, FILL, COPY; or ALLOC: zeros); @from may be NULL.
 * m3_status.
 */
int ck_m3_copier_submit(struct ck_m3_broker *b, struct ck_m3_ask *ask, struct ck_m3_piece *to,
			struct ck_m3_piece *from);
int ck_m3_copier_fd(const struct ck_m3_copier *copier); /* to poll, or -1 */
void ck_m3_copier_read(struct ck_m3_broker *b);
/* Whether an order that writes to @piece is under way or queued. */
bool ck_m3_copier_writes(const struct ck_m3_copier *copier, const struct ck_m3_piece *piece);
void ck_m3_copier_forget(struct ck_m3_copier *copier, struct ck_m3_conn *conn);

/* One order to the copier; descriptors of one or two pieces come with it. */
struct ck_m3_order {
	uint32_t op;
	int32_t device[2];
	uint32_t pieces;
	uint64_t piece_size[2];
	uint64_t offset[2];
	uint64_t size;
	uint32_t value;
	uint32_t data_size;
	unsigned char data[CK_M3_DATA_MAX];
};

struct ck_m3_done {
	int32_t status;
	uint32_t data_size;
	unsigned char data[CK_M3_DATA_MAX];
};

#endif
