/*
 * server/memory/m3_devices.h - M3's requests of a session that has moved to another GPU.
 *
 * The program names its devices by the UUIDs that it was told, and so it shall find them in
 * answers. The broker has its regions on the GPUs themselves.
 */
#ifndef CK_SERVER_MEMORY_M3_DEVICES_H
#define CK_SERVER_MEMORY_M3_DEVICES_H

#include "m3/message.h"

/* A request of the program, on its way to the broker; and the answer to it. Both have been
 * checked. */
void cks_m3_devices_out(struct ck_m3_request *request);
void cks_m3_devices_in(struct ck_m3_answer *answer);

#endif
