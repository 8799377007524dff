/*
 * m3/message.h - messages between clients and the broker: one packet (SOCK_SEQPACKET) each way, a
 * fixed structure and up to CK_M3_DATA_MAX bytes behind it. Client and broker are on one host and
 * of one release, which the hello checks; so structures travel as they are.
 */
#ifndef CK_M3_MESSAGE_H
#define CK_M3_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "m3/m3.h"

#define CK_M3_MAGIC 0x334d4b43u /* "CKM3" */
#define CK_M3_VERSION 1
#define CK_M3_DATA_MAX 65536u
#define CK_M3_KEY 16	    /* bytes of a deposit's key */
#define CK_M3_BLOB_MAX 128u /* bytes of a deposit without a descriptor */

enum ck_m3_op {
	CK_M3_HELLO = 1,
	CK_M3_ECHO,
	CK_M3_HALT,
	CK_M3_REGISTER,
	CK_M3_DEREGISTER,
	CK_M3_ROUND,
	CK_M3_ALLOC,
	CK_M3_OPEN,  /* by name, or by number when there is none */
	CK_M3_FETCH, /* the descriptor, to map it */
	CK_M3_UNMAP, /* it is mapped no more */
	CK_M3_RETAIN,
	CK_M3_RELEASE, /* value 1: undo also its creation, if this client made it and no other
		        * has it */
	CK_M3_UNLINK,
	CK_M3_SEAL,
	CK_M3_LEASE,
	CK_M3_UNLEASE,
	CK_M3_STAT,
	CK_M3_LIST,
	CK_M3_CHMOD,
	CK_M3_GRANT, /* access 0: revoke */
	CK_M3_QUOTA_GET,
	CK_M3_QUOTA_SET,
	CK_M3_TOPOLOGY,
	CK_M3_EVENT_SET,
	CK_M3_EVENT_GET,
	CK_M3_READ,
	CK_M3_WRITE,
	CK_M3_FILL,
	CK_M3_COPY,
	CK_M3_SUBSCRIBE,
	CK_M3_DEPOSIT, /* leave a descriptor or a few bytes for clients with its number and key */
	CK_M3_CLAIM,   /* get a deposit */
	CK_M3_WITHDRAW,
	/* of a worker: new regions of this connection count for principal too, which may have size
	 * bytes */
	CK_M3_BILL,
	CK_M3_OPS, /* their number */
};

struct ck_m3_request {
	uint32_t magic;
	uint16_t version;
	uint16_t op;
	uint64_t region;
	uint64_t from; /* COPY: another region; LIST: the last one listed */
	uint64_t offset, from_offset;
	uint64_t size;
	uint64_t count; /* QUOTA_SET: regions; ALLOC: on how many devices, when striped */
	uint32_t flags, mode, access, policy;
	int32_t device; /* the broker's number, where uuid is all zeros */
	/* LIST: 1: the caller's own only; LEASE: milliseconds; FILL: the byte; SUBSCRIBE:
	 * mask; FETCH, STAT: part; LEASE kind is in access */
	uint32_t value;
	uint32_t data_size;
	uint32_t zero;
	unsigned char uuid[16];
	char name[M3_NAME_MAX];
	char principal[M3_PRINCIPAL_MAX];
};

struct ck_m3_reply {
	uint32_t magic;
	uint16_t version;
	uint16_t op;
	int32_t status; /* m3_status */
	uint32_t data_size;
	uint64_t region;
	uint64_t size, count; /* of ROUND: size, granularity; of QUOTA_GET: bytes, regions */
	uint64_t used, used_count;
	uint64_t epoch;
	uint32_t access;
	uint32_t zero;
	m3_info info;
};

/* A request and its data, or a reply and its data, as they are received. */
struct ck_m3_question {
	struct ck_m3_request head;
	unsigned char data[CK_M3_DATA_MAX];
};

struct ck_m3_answer {
	struct ck_m3_reply head;
	unsigned char data[CK_M3_DATA_MAX];
};

/*
 * Whether @size bytes at @question are a request that makes sense: M3_OK, M3_EPROTO, M3_EVERSION or
 * M3_EINVAL.
 */
int ck_m3_request_check(const struct ck_m3_question *question, size_t size);
int ck_m3_reply_check(const struct ck_m3_answer *answer, size_t size, unsigned int op);

void ck_m3_request_init(struct ck_m3_request *request, enum ck_m3_op op);

/*
 * UTF-8 of at most @room - 1 bytes, terminated, without control characters; @least bytes at least.
 */
bool ck_m3_text_ok(const char *text, size_t room, size_t least);

/*
 * Send head and data as one packet, with a descriptor unless @fd is -1: 0 or -errno; -EAGAIN when
 * @flags has MSG_DONTWAIT and there is no room. Receive one: its size, 0 at the end, -errno. *fd
 * becomes the first descriptor that came with it, the caller's to close, or -1.
 */
int ck_m3_send(int sock, const void *head, size_t head_size, const void *data, size_t size, int fd,
	       int flags);
long ck_m3_receive(int sock, void *buffer, size_t room, int *fd, int flags);

/*
 * The @index-th place where a broker's socket may be: CRICKET_M3, or the usual ones. NULL: no more.
 */
const char *ck_m3_path(unsigned int index, char *buffer, size_t size);

/* A connected socket, or -errno; "@name" is an abstract address. */
int ck_m3_dial(const char *path);
/*
 * A listening socket; a stale socket file is replaced. -EADDRINUSE: another process listens there.
 * -errno.
 */
int ck_m3_listen(const char *path);

#endif
