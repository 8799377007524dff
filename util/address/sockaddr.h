/*
 * util/address/sockaddr.h - the number of a host in the address of a socket.
 *
 * A socket that listens at [::] reports the IPv4 clients of a host as IPv6 addresses
 * (::ffff:10.0.0.7). All that compares hosts gets their addresses here, where one host has one
 * address.
 */
#ifndef CK_UTIL_ADDRESS_SOCKADDR_H
#define CK_UTIL_ADDRESS_SOCKADDR_H

#include <stdbool.h>
#include <sys/socket.h>

#define CK_SOCKADDR_TEXT 64 /* room for the text and its end */

/* Make an IPv4 address of one that is written as IPv6. Others stay. */
void ck_sockaddr_unmap(struct sockaddr_storage *address);

/* The address at the other end of @fd. -errno: its family is AF_UNSPEC then. */
int ck_sockaddr_peer(int fd, struct sockaddr_storage *address);

/*
 * The host of @address as text, without its port: "10.0.0.7", "2001:db8::7", "fe80::7%eth0". False:
 * it is of another family, and @text is empty.
 */
bool ck_sockaddr_print(const struct sockaddr_storage *address, char text[CK_SOCKADDR_TEXT]);

/*
 * The reverse, for any spelling of the number, in brackets too. A link-local address needs the name
 * of its interface, because each link has its own. False: @text is no such address.
 */
bool ck_sockaddr_parse(const char *text, struct sockaddr_storage *address);

#endif
