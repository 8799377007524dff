/*
 * tests/fuzz/fuzz_server_stream.c - any bytes as what another server sends with a session: its
 * GPUs, device memory, also on further connections, files and a manifest. A file that is taken is a
 * new one in the folder for them, as long as it said; memory that is complete has the hashes that
 * were sent.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rpc/chan.h"
#include "server/checkpoint/chunks.h"
#include "server/checkpoint/manifest.h"
#include "server/checkpoint/stream.h"
#include "tests/fuzz/folder.h"
#include "tests/fuzz/standalone.h"

#define MOST 64		      /* files; the count of a worker's is about 40 */
#define MOST_BYTES (64 << 10) /* that the socket holds */
#define MOST_MEMORY (8 * (json_int_t)CK_MEMORY_PIECE)

static int dir;

static void take_file(int stream, const json_t *json)
{
	const char *name = json_string_value(json_object_get(json, "file"));
	struct cks_why why = {""};
	struct stat st;

	if (cks_stream_take_file(stream, dir, json, &why) < 0) {
		CK_FUZZ_CHECK(why.text[0]);
		return;
	}
	CK_FUZZ_CHECK(fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode));
	CK_FUZZ_CHECK(st.st_size == json_integer_value(json_object_get(json, "size")));
}

static void take_manifest(const json_t *json)
{
	static struct cks_manifest m;
	struct cks_why why = {""};

	if (cks_manifest_take(json, &m, &why) == 0)
		cks_manifest_free(&m);
	else
		CK_FUZZ_CHECK(why.text[0]);
}

static void take_gpus(const json_t *json)
{
	static struct cks_manifest_gpu gpu;

	if (cks_manifest_gpu_take(json, &gpu))
		CK_FUZZ_CHECK(gpu.count <= CK_MANIFEST_DEVICES &&
			      gpu.hidden_count <= CK_MANIFEST_DEVICES);
}

/* Connections that have ended already. */
static void take_lanes(int stream, const json_t *json, struct cks_chunks *c)
{
	struct cks_lanes_door door = {.fd = -1};
	struct ck_chan *chans[CKS_LANES];
	struct cks_why why = {""};
	struct cks_lanes *none;
	int ends[2];

	CK_FUZZ_CHECK(cks_lanes_accept(&door, stream, json, &none, &why) < 0 && why.text[0]);
	for (size_t i = 0; i < CKS_LANES && !c->lanes; i++) {
		CK_FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
		CK_FUZZ_CHECK(ck_chan_adopt(ends[0], &chans[i]) == 0);
		close(ends[1]);
	}
	if (!c->lanes)
		c->lanes = cks_lanes_create(chans, NULL);
}

static void take_memory(int stream, const json_t *json, struct cks_chunks *c)
{
	struct cks_piece_hash hash;
	struct cks_why why = {""};

	/* a larger one takes too long */
	if (json_integer_value(json_object_get(json, "size")) > MOST_MEMORY)
		return;
	if (cks_chunks_take(c, stream, json, &why) < 0) {
		CK_FUZZ_CHECK(why.text[0]);
		return;
	}
	CK_FUZZ_CHECK(c->count * CK_MEMORY_PIECE <= c->size);
	for (size_t i = 0; i < c->count && cks_chunks_complete(c); i++) {
		cks_piece_hash(c->bytes + i * CK_MEMORY_PIECE, CK_MEMORY_PIECE, &c->key, &hash);
		CK_FUZZ_CHECK(cks_piece_hash_equal(&hash, &c->has[i]));
	}
}

static int remove_file(int from, const char *name, void *data, struct cks_why *why)
{
	(void)data;
	(void)why;
	return unlinkat(from, name, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cks_chunks chunks = CK_CHUNKS_NONE;
	struct cks_why why = {""};
	json_t *json;
	int ends[2];

	if (size > MOST_BYTES)
		return 0;
	dir = fuzz_folder_open();
	CK_FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
	CK_FUZZ_CHECK(write(ends[0], data, size) == (ssize_t)size);
	shutdown(ends[0], SHUT_WR);
	for (int i = 0; i < MOST && (json = cks_stream_read(ends[1], &why)); i++) {
		if (json_object_get(json, "manifest"))
			take_manifest(json_object_get(json, "manifest"));
		else if (json_object_get(json, "gpu"))
			take_gpus(json_object_get(json, "gpu"));
		else if (json_object_get(json, "lanes"))
			take_lanes(ends[1], json, &chunks);
		else if (json_object_get(json, "memory"))
			take_memory(ends[1], json, &chunks);
		else
			take_file(ends[1], json);
		json_decref(json);
	}
	cks_chunks_free(&chunks);
	close(ends[0]);
	close(ends[1]);
	CK_FUZZ_CHECK(cks_pack_each(fuzz_folder, remove_file, NULL, &why) == 0);
	return 0;
}
