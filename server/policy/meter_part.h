/*
 * server/policy/meter_part.h - the parts of the meter, for meter.c, meter_calls.c,
 * meter_physical.c and meter_limits.c alone.
 */
#ifndef CK_SERVER_POLICY_METER_PART_H
#define CK_SERVER_POLICY_METER_PART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gen/driver.h"

/* The driver itself. */
extern struct ck_driver cks_meter_driver;

/* meter.c: take @size bytes of @device, or give them back. False: the quota has no room. */
bool cks_meter_charge(CUdevice device, size_t size);
void cks_meter_refund(CUdevice device, size_t size);
/* The quota of @device, and the identity's use of it; false: there is none. */
bool cks_meter_quota(CUdevice device, uint64_t *limit, uint64_t *used);

/* Does the policy let the session take turns in the memory of @device? @own: its bytes there. */
bool cks_meter_takes_turns(CUdevice device, uint64_t *own);

/* meter_calls.c: put the functions that count into ck_driver. */
void cks_meter_take_over(void);

/* meter_physical.c: the same for physical memory and mappings. meter_limits.c: for limits. */
void cks_meter_take_over_physical(void);
void cks_meter_take_over_limits(void);

#endif
