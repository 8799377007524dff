/*
 * util/address/srv.h - servers that DNS names for a service: SRV records (RFC 2782).
 *
 * The C library's resolver asks, so that the system's name servers, search list and time limits
 * hold. It is looked up when a name is asked for: older C libraries have it in a library of its
 * own, which the client does not need otherwise.
 */
#ifndef CK_UTIL_ADDRESS_SRV_H
#define CK_UTIL_ADDRESS_SRV_H

#include <stddef.h>
#include <stdint.h>

#define CK_SRV_MAX 64
#define CK_SRV_HOST 256
#define CK_SRV_WHY 160
#define CK_SRV_SERVICE "_cricket._tcp."

struct ck_srv_target {
	char host[CK_SRV_HOST];
	uint16_t port, priority, weight;
};

struct ck_srv_list {
	struct ck_srv_target targets[CK_SRV_MAX]; /* more are left out */
	unsigned int count;
};

/* The targets in a DNS message of @size bytes, in its order. -ENOENT: none; -EBADMSG: it is no
 * answer. */
int ck_srv_parse(const unsigned char *message, size_t size, struct ck_srv_list *list);

/* The order in which a client tries them: the lowest priority first; of one priority by chance, as
 * often first as their weights say. @draw: a number from 0 to @most. */
void ck_srv_order(struct ck_srv_list *list, uint32_t (*draw)(uint32_t most));

/* Ask for _cricket._tcp.@name, or for @name itself if it begins with "_".
 * CRICKET_DEBUG=resolver=ADDRESS names another name server. -errno: @why says why. */
int ck_srv_lookup(const char *name, struct ck_srv_list *list, char why[CK_SRV_WHY]);

#endif
