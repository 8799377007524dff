/*
 * server/policy/refusal.c - see refusal.h.
 */
#include "server/policy/refusal.h"

const char *cks_refusal_name(enum cks_refusal kind)
{
	static const char *const names[CK_REFUSALS] = {
		[CK_REFUSED_TOKEN] = "token",
		[CK_REFUSED_TLS] = "tls",
		[CK_REFUSED_CERTIFICATE] = "certificate",
		[CK_REFUSED_PROTOCOL] = "protocol",
		[CK_REFUSED_FULL] = "full",
		[CK_REFUSED_ADDRESS] = "address",
		[CK_REFUSED_IDENTITY] = "identity",
		[CK_REFUSED_QUEUE] = "queue",
		[CK_REFUSED_QUEUE_FULL] = "queue-full",
		[CK_REFUSED_DRAINING] = "draining",
		[CK_REFUSED_MEMORY] = "memory",
		[CK_REFUSED_FAILED] = "failed",
	};

	return names[kind];
}
