/*
 * server/session/profile_record.h - CUPTI's records in the form in which they travel
 * (rpc/activity.h).
 */
#ifndef CK_SERVER_SESSION_PROFILE_RECORD_H
#define CK_SERVER_SESSION_PROFILE_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/cupti.h"
#include "rpc/activity.h"

/* The kind of the ids that the worker pushes. */
#define CKS_PROFILE_ID_KIND CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0

typedef uint32_t (*cks_profile_name_fn)(const char *name);

/* Who made the records. */
struct cks_profile_source {
	uint32_t version;	       /* as cuptiGetVersion says; 0: unknown */
	cks_profile_name_fn number_of; /* the number of a kernel's name */
};

/* Returns false for a record that is not for the client, such as one of the worker's own calls. */
bool cks_profile_translate(struct ck_activity *r, const union ck_cupti_record *from,
			   const struct cks_profile_source *cupti);

#endif
