/*
 * note.c - a text in GPU memory, which other processes find by its name: libm3.
 *
 *     note TEXT      write it; the memory stays when this process has ended
 *     note           read it, in any other process of this user
 *
 * Neither needs a CUDA driver: the broker that owns the memory has one. m3_boot starts a broker
 * where there is none.
 */
#include <m3.h>
#include <stdio.h>
#include <string.h>

#define NAME "example-note"
#define ROOM 256

static int failed(int status, const char *what)
{
	if (status != M3_OK)
		fprintf(stderr, "note: %s: %s\n", what, m3_strerror(status));
	return status != M3_OK;
}

static int write_note(m3_client *client, const char *text)
{
	m3_alloc_req request = {
		.mem_id = NAME,
		.bytes = ROOM,
		.device = M3_ANY_DEVICE,
		.flags = M3_DETACHED | M3_NO_MAP,
	};
	m3_region *region;
	char note[ROOM] = "";

	snprintf(note, sizeof(note), "%s", text);
	if (failed(m3_alloc(client, &request, &region), "m3_alloc") ||
	    failed(m3_write(region, 0, note, sizeof(note)), "m3_write"))
		return 1;
	return failed(m3_release(region), "m3_release");
}

static int read_note(m3_client *client)
{
	m3_region *region;
	char note[ROOM];

	if (failed(m3_open(client, NAME, M3_READ, &region), "m3_open") ||
	    failed(m3_read(region, 0, note, sizeof(note)), "m3_read"))
		return 1;
	printf("%.*s\n", ROOM, note);
	return failed(m3_release(region), "m3_release");
}

int main(int argc, char **argv)
{
	m3_client *client;
	int bad;

	if (failed(m3_boot(&client), "m3_boot"))
		return 1;
	bad = argc > 1 ? write_note(client, argv[1]) : read_note(client);
	m3_disconnect(client);
	return bad;
}
