/*
 * loader/maps.c - reading /proc/self/maps, a line at a time.
 */
#include "loader/maps.h"

#define LINE 4352

static const char *parse_hex(const char *at, uint64_t *value)
{
	*value = 0;
	for (;; at++) {
		int digit = *at >= '0' && *at <= '9'   ? *at - '0'
			    : *at >= 'a' && *at <= 'f' ? *at - 'a' + 10
						       : -1;

		if (digit < 0)
			return at;
		*value = *value << 4 | (uint64_t)digit;
	}
}

static const char *skip_word(const char *at)
{
	while (*at && *at != ' ')
		at++;
	while (*at == ' ')
		at++;
	return at;
}

/* start-end access offset device inode name */
static void parse_line(char *line, void (*each)(const struct ck_mapping *m, void *argument),
		       void *argument)
{
	struct ck_mapping m;
	const char *at = parse_hex(line, &m.start);

	at = parse_hex(at + (*at == '-'), &m.end);
	m.access = at = skip_word(at);
	at = parse_hex(skip_word(at), &m.offset);
	m.name = skip_word(skip_word(skip_word(at)));
	each(&m, argument);
}

void ck_maps_each(void (*each)(const struct ck_mapping *m, void *argument), void *argument)
{
	int fd = (int)sys3(__NR_open, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
	char buffer[LINE];
	size_t have = 0;
	long n;

	if (fd < 0)
		return;
	while ((n = sys3(__NR_read, fd, buffer + have, sizeof(buffer) - have)) > 0) {
		size_t from = 0;

		have += (size_t)n;
		for (size_t i = 0; i < have; i++) {
			if (buffer[i] != '\n')
				continue;
			buffer[i] = '\0';
			parse_line(buffer + from, each, argument);
			from = i + 1;
		}
		have -= from;
		for (size_t i = 0; i < have; i++)
			buffer[i] = buffer[from + i];
	}
	sys1(__NR_close, fd);
}
