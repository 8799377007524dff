/*
 * server/policy/refusal.h - why a client gets no session.
 */
#ifndef CK_SERVER_POLICY_REFUSAL_H
#define CK_SERVER_POLICY_REFUSAL_H

enum cks_refusal {
	CK_REFUSED_TOKEN,
	CK_REFUSED_TLS,		/* its connection is not encrypted (--tls required) */
	CK_REFUSED_CERTIFICATE, /* it has none, or an unaccepted one (--tls-ca) */
	CK_REFUSED_PROTOCOL,
	CK_REFUSED_FULL,       /* --max-sessions */
	CK_REFUSED_ADDRESS,    /* --sessions-per-address */
	CK_REFUSED_IDENTITY,   /* --sessions-per-identity, or the policy */
	CK_REFUSED_QUEUE,      /* others wait for the session */
	CK_REFUSED_QUEUE_FULL, /* it would wait, but too many do */
	CK_REFUSED_DRAINING,
	CK_REFUSED_MEMORY, /* its GPUs have less free than the client needs */
	CK_REFUSED_FAILED, /* no process, no driver, or no record of it */
	CK_REFUSALS
};

/* The word for it in the audit log, the status and the metrics. */
const char *cks_refusal_name(enum cks_refusal kind);

#endif
