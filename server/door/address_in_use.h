/*
 * server/door/address_in_use.h - why the server cannot listen at an address, in words.
 */
#ifndef CK_SERVER_DOOR_ADDRESS_IN_USE_H
#define CK_SERVER_DOOR_ADDRESS_IN_USE_H

#define CK_LISTEN_WHY 256

/* The reason of @error (-errno of ck_chan_listen) for @address. If a program listens there, it is
 * named as far as this process may see it. Returns @why. */
const char *cks_listen_error(const char *address, int error, char why[CK_LISTEN_WHY]);

#endif
