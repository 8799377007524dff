/*
 * server/options/announce.c - see announce.h.
 */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "server/options/announce.h"
#include "util/process/replace.h"

int cks_announce_begin(int port, const char *pin)
{
	struct ck_replace file;
	int ret = ck_replace_begin(&file, CK_ANNOUNCE_FILE, 0644);

	if (ret < 0)
		return ret;
	fprintf(file.out,
		"<?xml version=\"1.0\" standalone=\"no\"?>\n"
		"<!DOCTYPE service-group SYSTEM \"avahi-service.dtd\">\n"
		"<!-- by cricket-rpc-server -->\n"
		"<service-group>\n"
		"  <name replace-wildcards=\"yes\">Cricket on %%h</name>\n"
		"  <service>\n"
		"    <type>_cricket._tcp</type>\n"
		"    <port>%d</port>\n"
		"    <txt-record>pin=%s</txt-record>\n"
		"  </service>\n"
		"</service-group>\n",
		port, pin);
	return ck_replace_end(&file, true);
}

int cks_announce_end(void)
{
	return unlink(CK_ANNOUNCE_FILE) < 0 && errno != ENOENT ? -errno : 0;
}
