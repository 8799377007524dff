/*
 * command/sessions/units.c - quantities as text, and the width of a terminal; see session.h.
 */
#include <stdio.h>
#include <sys/ioctl.h>

#include "command/sessions/session.h"

const char *ckx_bytes(double bytes, char out[16])
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
	int i = 0;

	for (; bytes >= 1023.5 && i < 4; i++)
		bytes /= 1024;
	snprintf(out, 16, "%.*f %s", i > 0 && bytes < 99.95, bytes, units[i]);
	return out;
}

const char *ckx_time(double seconds, char out[16])
{
	unsigned long s = (unsigned long)seconds % 100000000;

	if (s >= 86400)
		snprintf(out, 16, "%lud%02luh", s / 86400, s % 86400 / 3600);
	else if (s >= 3600)
		snprintf(out, 16, "%luh%02lum", s / 3600, s % 3600 / 60);
	else if (s >= 60)
		snprintf(out, 16, "%lum%02lus", s / 60, s % 60);
	else
		snprintf(out, 16, "%lus", s);
	return out;
}

const char *ckx_number(double number, char out[16])
{
	if (number >= 999950)
		snprintf(out, 16, "%.1f M", number / 1e6);
	else if (number >= 9999.5)
		snprintf(out, 16, "%.1f k", number / 1e3);
	else
		snprintf(out, 16, "%.0f", number);
	return out;
}

int ckx_width(int fd)
{
	struct winsize size;

	return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : CKX_WIDTH_ALL;
}
