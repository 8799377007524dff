/*
 * server/policy/policy_prefix.c - commands that workers may be started through, by the names that
 * clients use.
 *
 * A client gives a name and nothing else: the administrator writes the command.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "server/policy/policy_part.h"
#include "util/util.h"

#define CK_PREFIX_ARGUMENTS 64

static bool is_list(const config_setting_t *s)
{
	return config_setting_type(s) == CONFIG_TYPE_ARRAY ||
	       config_setting_type(s) == CONFIG_TYPE_LIST;
}

static void take_name(struct cks_policy_reading *r, const config_setting_t *s, struct cks_prefix *p)
{
	const char *name = cks_policy_text(r, s);

	for (const char *c = name; *c; c++) {
		if (!isalnum((unsigned char)*c) && !strchr("-_.", *c))
			cks_policy_fail(r, s, "name: letters, digits, '-', '_' and '.' only");
	}
	if (!*name || strlen(name) >= sizeof(p->name))
		cks_policy_fail(r, s, "name: 1 to %zu letters", sizeof(p->name) - 1);
	else
		memcpy(p->name, name, strlen(name) + 1);
}

static void take_command(struct cks_policy_reading *r, const config_setting_t *s,
			 struct cks_prefix *p)
{
	int count = config_setting_length(s);

	if (!is_list(s) || count == 0 || count > CK_PREFIX_ARGUMENTS) {
		cks_policy_fail(r, s, "command: not a list as in [\"/usr/bin/nsys\", \"profile\"]");
		return;
	}
	p->command = calloc((size_t)count + 1, sizeof(*p->command));
	for (int i = 0; p->command && !r->failed && i < count; i++) {
		p->command[i] =
			strdup(cks_policy_text(r, config_setting_get_elem(s, (unsigned int)i)));
		if (!p->command[i])
			cks_policy_fail(r, s, "out of memory");
	}
	if (!p->command)
		cks_policy_fail(r, s, "out of memory");
	else if (!r->failed && p->command[0][0] != '/')
		cks_policy_fail(r, s, "command: not an absolute path: %s", p->command[0]);
}

static const struct cks_prefix *find(const struct cks_prefixes *prefixes, const char *name)
{
	for (size_t i = 0; i < prefixes->count; i++) {
		if (strcmp(prefixes->list[i].name, name) == 0)
			return &prefixes->list[i];
	}
	return NULL;
}

static void take_prefix(struct cks_policy_reading *r, const config_setting_t *group,
			struct cks_prefixes *prefixes)
{
	struct cks_prefix p = {.command = NULL};

	for (int i = 0; !r->failed && i < config_setting_length(group); i++) {
		const config_setting_t *s = config_setting_get_elem(group, (unsigned int)i);
		const char *key = config_setting_name(s);

		if (key && strcmp(key, "name") == 0)
			take_name(r, s, &p);
		else if (key && strcmp(key, "command") == 0)
			take_command(r, s, &p);
		else
			cks_policy_fail(r, s, "unknown key: %s", key ? key : "none");
	}
	if (!p.name[0] || !p.command)
		cks_policy_fail(r, group, "a prefix has a name and a command");
	else if (find(prefixes, p.name))
		cks_policy_fail(r, group, "there is a prefix %s already", p.name);
	/* taken in any case, so that it is freed with the others */
	prefixes->list[prefixes->count++] = p;
}

void cks_prefixes_take(struct cks_policy_reading *r, const config_setting_t *list,
		       struct cks_prefixes *prefixes)
{
	int count = config_setting_length(list);

	if (!config_setting_is_list(list) || count > CK_PREFIXES)
		cks_policy_fail(r, list,
				"prefixes: not a list of at most %d groups, as in ( { name = "
				"\"nsys\"; command = [\"/usr/bin/nsys\", \"profile\"]; } );",
				CK_PREFIXES);
	for (int i = 0; !r->failed && i < count; i++)
		take_prefix(r, config_setting_get_elem(list, (unsigned int)i), prefixes);
}

void cks_prefixes_grant(struct cks_policy_reading *r, const config_setting_t *names,
			const struct cks_prefixes *prefixes, uint32_t *granted)
{
	*granted = 0;
	if (!is_list(names))
		cks_policy_fail(r, names, "prefixes: not a list of names as in [\"nsys\"]");
	for (int i = 0; !r->failed && i < config_setting_length(names); i++) {
		const char *name =
			cks_policy_text(r, config_setting_get_elem(names, (unsigned int)i));
		const struct cks_prefix *p = find(prefixes, name);

		if (p)
			*granted |= 1u << (p - prefixes->list);
		else
			cks_policy_fail(r, names, "prefixes: there is none of the name %s", name);
	}
}

void cks_prefixes_free(struct cks_prefixes *prefixes)
{
	for (size_t i = 0; i < prefixes->count; i++) {
		char **command = prefixes->list[i].command;

		for (char **argument = command; argument && *argument; argument++)
			free(*argument);
		free(command);
	}
	prefixes->count = 0;
}
