/*
 * command/sessions/metrics.h - a server's report as metrics, in Prometheus's text format.
 */
#ifndef CK_COMMAND_SESSIONS_METRICS_H
#define CK_COMMAND_SESSIONS_METRICS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* Print the metrics of @report; NULL: the server does not answer. @identities: also those of each
 * identity, of 100 at most. */
void ckx_metrics_print(const json_t *report, bool identities, FILE *out);

#endif
