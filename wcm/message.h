/*
 * wcm/message.h - the messages at the meeting place: packets of a SOCK_SEQPACKET socket, on one
 * host and between processes of one user.
 *
 * A rank says hello, and then takes part in exchanges: each of the ranks in a mask gives some bytes
 * and perhaps a descriptor, and gets those of all. All collective steps are made of exchanges. In
 * addition, a rank reports when it no longer uses an object (the memory of one wcm_malloc), and is
 * notified when all ranks have done so or have gone.
 */
#ifndef CK_WCM_MESSAGE_H
#define CK_WCM_MESSAGE_H

#include <stdint.h>
#include <sys/types.h>

#include "wcm/wcm_handle.h"

#define CK_WCM_VERSION 1
#define CK_WCM_MAGIC 0x314d4357u /* "WCM1" */
#define CK_WCM_PART_MAX 1024	 /* bytes that a rank gives in an exchange */

enum ck_wcm_op {
	CK_WCM_HELLO = 1, /* rank, count: the group's size */
	CK_WCM_WELCOME,	  /* status */
	CK_WCM_EXCHANGE,  /* mask, serial, size: bytes behind; perhaps a descriptor */
	CK_WCM_EXCHANGED, /* serial, status; number; size: bytes of each of the mask, in order; fds
			   */
	CK_WCM_CANCEL,	  /* serial: the rank does not want to wait any longer */
	CK_WCM_DONE,	  /* number: of an object, mask: of its ranks */
	CK_WCM_RELEASED,  /* number, lost: ranks that have gone without being done */
	CK_WCM_LOST,	  /* mask: ranks that have gone */
};

struct ck_wcm_message {
	uint32_t magic;
	uint16_t version, op;
	uint64_t serial; /* of the rank's exchange */
	uint64_t number; /* of an exchange that has been made; objects are named so */
	uint32_t mask;	 /* bit i: rank i */
	uint32_t fds;	 /* bit i: a descriptor of rank i is attached, in the order of ranks */
	int32_t status;
	uint32_t rank, count, size;
};

struct ck_wcm_packet {
	struct ck_wcm_message head;
	unsigned char bytes[WCM_RANKS_MAX * CK_WCM_PART_MAX];
};

void ck_wcm_message_init(struct ck_wcm_message *m, enum ck_wcm_op op);

/*
 * Send @m and @size bytes behind it, with @count descriptors attached. @flags: as of sendmsg. 0 or
 * -errno.
 */
int ck_wcm_send(int sock, const struct ck_wcm_message *m, const void *bytes, size_t size,
		const int *fds, unsigned int count, int flags);

/*
 * Receive a packet with a valid head. @fds gets its descriptors, which the caller then owns; 0 and
 * *@count, or -errno: -ECONNRESET when the other end has gone, -EPROTO for an invalid packet.
 */
int ck_wcm_receive(int sock, struct ck_wcm_packet *packet, int fds[WCM_RANKS_MAX],
		   unsigned int *count, int flags);

/* The socket of group @name: listening, or connected (-EPERM: to another user's). -errno. */
int ck_wcm_listen(const char *name);
int ck_wcm_dial(const char *name);

/* Whether the other end is a process of this one's user. */
int ck_wcm_check_user(int sock);

#endif
