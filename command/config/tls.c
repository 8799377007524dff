/*
 * command/config/tls.c - see tls.h.
 */
#include <stdlib.h>
#include <string.h>

#include "command/config/tls.h"

static const struct {
	const char *key, *variable;
} names[CKX_TLS_SETTINGS] = {
	[CKX_TLS_MODE] = {"tls", "CRICKET_TLS"},
	[CKX_TLS_PIN] = {"tls-pin", "CRICKET_TLS_PIN"},
	[CKX_TLS_CA] = {"tls-ca", "CRICKET_TLS_CA"},
	[CKX_TLS_CERT] = {"tls-cert", "CRICKET_TLS_CERT"},
	[CKX_TLS_KEY] = {"tls-key", "CRICKET_TLS_KEY"},
};

char *ckx_tls_find(struct ckx_tls *tls, const char *key)
{
	for (int i = 0; i < CKX_TLS_SETTINGS; i++) {
		if (strcmp(names[i].key, key) == 0)
			return tls->value[i];
	}
	return NULL;
}

const char *ckx_tls_key(enum ckx_tls_setting setting)
{
	return names[setting].key;
}

const char *ckx_tls_variable(enum ckx_tls_setting setting)
{
	return names[setting].variable;
}

const char *ckx_tls_value(const struct ckx_tls *tls, enum ckx_tls_setting setting)
{
	const char *set = getenv(names[setting].variable);

	return tls->value[setting][0] && !(set && *set) ? tls->value[setting] : NULL;
}

bool ckx_tls_configured(const struct ckx_tls *tls)
{
	for (int i = 0; i < CKX_TLS_SETTINGS; i++) {
		const char *set = getenv(names[i].variable);

		if (tls->value[i][0] || (set && *set))
			return true;
	}
	return false;
}

void ckx_tls_apply(const struct ckx_tls *tls)
{
	for (int i = 0; i < CKX_TLS_SETTINGS; i++) {
		const char *value = ckx_tls_value(tls, (enum ckx_tls_setting)i);

		if (value)
			setenv(names[i].variable, value, 1);
	}
}
