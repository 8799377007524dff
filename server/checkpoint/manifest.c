/*
 * server/checkpoint/manifest.c - see manifest.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/checkpoint/manifest.h"
#include "util/process/fd.h"

#define CK_MANIFEST_FILE "manifest.json"
#define CK_MANIFEST_NEW CK_MANIFEST_FILE ".new"
#define CK_MANIFEST_MAX (16 << 20) /* bytes */
#define CK_MANIFEST_LIST 65536	   /* threads, images */

int cks_manifest_add(struct cks_manifest *m, const struct cks_packed *image)
{
	struct cks_packed *more = realloc(m->images, (m->image_count + 1) * sizeof(*more));

	if (!more)
		return -ENOMEM;
	m->images = more;
	m->images[m->image_count++] = *image;
	return 0;
}

/* --- writing */

static json_t *devices_json(const struct cks_manifest_device *devices, size_t count)
{
	json_t *list = json_array();

	for (size_t i = 0; i < count; i++)
		json_array_append_new(list, json_pack("{s:s, s:s}", "name", devices[i].name, "uuid",
						      devices[i].uuid));
	return list;
}

static json_t *threads_json(const struct cks_manifest *m)
{
	json_t *list = json_array();

	for (size_t i = 0; i < m->thread_count; i++)
		json_array_append_new(list, json_integer(m->threads[i]));
	return list;
}

static json_t *outside_json(const struct cks_external_fds *outside)
{
	json_t *list = json_array();

	for (size_t i = 0; i < outside->count; i++)
		json_array_append_new(list,
				      json_pack("{s:s, s:s}", "role",
						cks_external_fds_role_name(outside->files[i].role),
						"id", outside->files[i].id));
	return list;
}

static json_t *images_json(const struct cks_manifest *m)
{
	json_t *list = json_array();
	char hash[CK_HASH_TEXT];

	for (size_t i = 0; i < m->image_count; i++) {
		const struct cks_packed *image = &m->images[i];

		ck_hash_print(&image->hash, hash);
		json_array_append_new(list, json_pack("{s:s, s:I, s:I, s:s*}", "name", image->name,
						      "size", (json_int_t)image->size, "stored",
						      (json_int_t)image->stored, "blake2b",
						      image->plain ? NULL : hash));
	}
	return list;
}

static int get_format(const struct cks_memory_file *file)
{
	const struct cks_memory_parts *parts = &file->parts;

	if (file->count == 0)
		return 1;
	return parts->count == 1 && parts->list[0].number == 0 ? 2 : 3;
}

json_t *cks_manifest_gpu_json(const struct cks_manifest_gpu *gpu)
{
	return json_pack("{s:s, s:s, s:i, s:o, s:o}", "machine", gpu->machine, "driver",
			 gpu->driver, "version", gpu->version, "devices",
			 devices_json(gpu->devices, gpu->count), "hidden",
			 devices_json(gpu->hidden, gpu->hidden_count));
}

/* A name or path that is not UTF-8 has no JSON: packing it gives NULL. */
json_t *cks_manifest_json(const struct cks_manifest *m)
{
	return json_pack("{s:i, s:s*, s:s, s:s, s:s, s:I, s:I, s:o, s:i, s:o, s:o, s:o, s:o*}",
			 "format", get_format(&m->file), "id", m->id[0] ? m->id : NULL, "release",
			 m->release, "session", m->session, "application", m->application,
			 "created", (json_int_t)m->created, "memory", (json_int_t)m->memory, "gpu",
			 cks_manifest_gpu_json(&m->gpu), "pid", (int)m->pid, "threads",
			 threads_json(m), "outside", outside_json(&m->outside), "images",
			 images_json(m), "file",
			 m->file.count > 0 ? cks_memory_file_json(&m->file) : NULL);
}

static int write_text(int dir, const char *text)
{
	int fd = openat(dir, CK_MANIFEST_NEW, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int ret = fd < 0 ? -errno : ck_fd_write_full(fd, text, strlen(text));

	if (ret == 0 && fsync(fd) < 0)
		ret = -errno;
	if (fd >= 0)
		close(fd);
	if (ret == 0 && renameat(dir, CK_MANIFEST_NEW, dir, CK_MANIFEST_FILE) < 0)
		ret = -errno;
	return ret;
}

int cks_manifest_write(int dir, const struct cks_manifest *manifest, struct cks_why *why)
{
	json_t *json = cks_manifest_json(manifest);
	char *text = json ? json_dumps(json, JSON_INDENT(1) | JSON_SORT_KEYS) : NULL;
	int ret = text ? write_text(dir, text) : -ENOMEM;

	free(text);
	json_decref(json);
	return ret < 0 ? cks_why_set(why, -ret, CK_MANIFEST_FILE ": %m") : 0;
}

/* --- reading */

static int reject_manifest(struct cks_why *why, const char *what)
{
	return cks_why_set(why, EBADMSG, CK_MANIFEST_FILE ": %s", what);
}

/* The text @name of @json into @out; false: there is none, or it has no room. */
static bool take_text(const json_t *json, const char *name, char *out, size_t size)
{
	const char *text = json_string_value(json_object_get(json, name));

	return text && (size_t)snprintf(out, size, "%s", text) < size;
}

static bool take_size(const json_t *json, const char *name, uint64_t *out)
{
	const json_t *value = json_object_get(json, name);

	*out = (uint64_t)json_integer_value(value);
	return json_is_integer(value) && json_integer_value(value) >= 0;
}

static bool take_devices(const json_t *list, struct cks_manifest_device *devices, size_t *count)
{
	const json_t *device;
	size_t i;

	if (!json_is_array(list) || json_array_size(list) > CK_MANIFEST_DEVICES)
		return false;
	*count = json_array_size(list);
	json_array_foreach(list, i, device)
	{
		struct cks_manifest_device *d = &devices[i];

		if (!take_text(device, "name", d->name, sizeof(d->name)) ||
		    !take_text(device, "uuid", d->uuid, sizeof(d->uuid)))
			return false;
	}
	return true;
}

bool cks_manifest_gpu_take(const json_t *json, struct cks_manifest_gpu *gpu)
{
	const json_t *hidden = json_object_get(json, "hidden"); /* an older release has none */
	uint64_t version;

	if (!json_object_get(json, "machine")) /* of a release that knew no other */
		strcpy(gpu->machine, "x86_64");
	else if (!take_text(json, "machine", gpu->machine, sizeof(gpu->machine)))
		return false;
	if (!take_text(json, "driver", gpu->driver, sizeof(gpu->driver)) ||
	    !take_size(json, "version", &version) || version > INT32_MAX)
		return false;
	gpu->version = (int)version;
	return take_devices(json_object_get(json, "devices"), gpu->devices, &gpu->count) &&
	       (!hidden || take_devices(hidden, gpu->hidden, &gpu->hidden_count));
}

static bool take_outside(const json_t *list, struct cks_external_fds *outside)
{
	const json_t *entry;
	char role[32];
	size_t i;

	if (!json_is_array(list) || json_array_size(list) > CK_EXTERNAL_FDS_MAX)
		return false;
	outside->count = json_array_size(list);
	json_array_foreach(list, i, entry)
	{
		struct cks_external_fds_file *file = &outside->files[i];

		if (!take_text(entry, "role", role, sizeof(role)) ||
		    cks_external_fds_role_parse(role, &file->role) < 0 ||
		    !take_text(entry, "id", file->id, sizeof(file->id)))
			return false;
	}
	return true;
}

/* Room for each entry of @list; NULL: it is no list, or too long. */
static void *make_room(const json_t *list, size_t size, size_t *count)
{
	size_t n = json_array_size(list);
	void *room = json_is_array(list) && n <= CK_MANIFEST_LIST ? calloc(n + 1, size) : NULL;

	*count = room ? n : 0;
	return room;
}

static bool take_threads(const json_t *list, struct cks_manifest *m)
{
	const json_t *entry;
	size_t i;

	m->threads = make_room(list, sizeof(*m->threads), &m->thread_count);
	if (!m->threads)
		return false;
	json_array_foreach(list, i, entry)
	{
		json_int_t id = json_integer_value(entry);

		if (id <= 0 || id > INT32_MAX)
			return false;
		m->threads[i] = (pid_t)id;
	}
	return true;
}

static bool take_image(const json_t *entry, struct cks_packed *image)
{
	const json_t *hash = json_object_get(entry, "blake2b");

	image->plain = hash == NULL;
	return take_text(entry, "name", image->name, sizeof(image->name)) &&
	       cks_pack_name_valid(image->name) && take_size(entry, "size", &image->size) &&
	       take_size(entry, "stored", &image->stored) &&
	       (image->plain || (json_is_string(hash) &&
				 ck_hash_parse(json_string_value(hash), &image->hash) == 0));
}

static bool take_images(const json_t *list, struct cks_manifest *m)
{
	const json_t *entry;
	size_t i;

	m->images = make_room(list, sizeof(*m->images), &m->image_count);
	if (!m->images)
		return false;
	json_array_foreach(list, i, entry)
	{
		if (!take_image(entry, &m->images[i]))
			return false;
	}
	return true;
}

static int take_all(const json_t *json, struct cks_manifest *m, struct cks_why *why)
{
	json_int_t format = json_integer_value(json_object_get(json, "format"));
	const json_t *file = json_object_get(json, "file");
	uint64_t created, pid;

	if (format < 1 || format > CK_MANIFEST_FORMAT)
		return reject_manifest(why, "not a format that this release reads");
	if (json_object_get(json, "id") && !take_text(json, "id", m->id, sizeof(m->id)))
		return reject_manifest(why, "it does not name the session");
	if (!take_text(json, "release", m->release, sizeof(m->release)) ||
	    !take_text(json, "session", m->session, sizeof(m->session)) ||
	    !take_text(json, "application", m->application, sizeof(m->application)) ||
	    !take_size(json, "created", &created) || !take_size(json, "memory", &m->memory))
		return reject_manifest(why, "it does not name the session");
	if (!cks_manifest_gpu_take(json_object_get(json, "gpu"), &m->gpu))
		return reject_manifest(why, "it does not name the GPU");
	if (!take_size(json, "pid", &pid) || pid == 0 || pid > INT32_MAX ||
	    !take_threads(json_object_get(json, "threads"), m) ||
	    !take_outside(json_object_get(json, "outside"), &m->outside))
		return reject_manifest(why, "it does not describe the process");
	if (!take_images(json_object_get(json, "images"), m))
		return reject_manifest(why, "it does not name the images");
	if (format > 1 && !cks_memory_file_take(file, &m->file))
		return reject_manifest(why, "it does not describe the memory");
	m->created = (long long)created;
	m->pid = (pid_t)pid;
	return 0;
}

int cks_manifest_take(const json_t *json, struct cks_manifest *manifest, struct cks_why *why)
{
	int ret;

	memset(manifest, 0, sizeof(*manifest));
	ret = json ? take_all(json, manifest, why) : reject_manifest(why, "not JSON");
	if (ret < 0)
		cks_manifest_free(manifest);
	return ret;
}

int cks_manifest_parse(const char *text, size_t size, struct cks_manifest *manifest,
		       struct cks_why *why)
{
	json_t *json = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
	int ret = cks_manifest_take(json, manifest, why);

	json_decref(json);
	return ret;
}

int cks_manifest_read(int dir, struct cks_manifest *manifest, struct cks_why *why)
{
	int fd = openat(dir, CK_MANIFEST_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	char *text = malloc(CK_MANIFEST_MAX);
	size_t size = 0;
	ssize_t n = 0;
	int ret;

	if (fd < 0)
		ret = cks_why_set(why, errno, CK_MANIFEST_FILE ": %m");
	else if (!text)
		ret = cks_why_set(why, ENOMEM, CK_MANIFEST_FILE ": %m");
	else {
		while (size < CK_MANIFEST_MAX &&
		       (n = read(fd, text + size, CK_MANIFEST_MAX - size)) > 0)
			size += (size_t)n;
		ret = n < 0 ? cks_why_set(why, errno, CK_MANIFEST_FILE ": %m")
			    : cks_manifest_parse(text, size, manifest, why);
		ck_hash(text, size, &manifest->hash);
	}
	if (fd >= 0)
		close(fd);
	free(text);
	return ret;
}

void cks_manifest_free(struct cks_manifest *manifest)
{
	free(manifest->threads);
	free(manifest->images);
	cks_memory_file_free(&manifest->file);
	memset(manifest, 0, sizeof(*manifest));
}

bool cks_manifest_names(const struct cks_manifest_gpu *gpu, const char *uuid)
{
	for (size_t i = 0; i < gpu->count; i++) {
		if (strcmp(gpu->devices[i].uuid, uuid) == 0)
			return true;
	}
	return false;
}

int cks_manifest_fits(const struct cks_manifest_gpu *there, const struct cks_manifest_gpu *here,
		      struct cks_why *why)
{
	if (strcmp(there->machine, here->machine) != 0)
		return cks_why_set(why, EXDEV, "the checkpoint needs a processor %s; here is %s",
				   there->machine, here->machine);
	if (strcmp(there->driver, here->driver) != 0 || there->version != here->version)
		return cks_why_set(why, EXDEV,
				   "the checkpoint needs driver %s, version %d; here is %s, %d",
				   there->driver, there->version, here->driver, here->version);
	if (there->count > here->count)
		return cks_why_set(why, EXDEV, "the checkpoint needs %zu GPUs; here are %zu",
				   there->count, here->count);
	for (size_t i = 0; i < there->count; i++) {
		if (strcmp(there->devices[i].name, here->devices[i].name) != 0)
			return cks_why_set(why, EXDEV, "GPU %zu must be a %s; here is a %s", i,
					   there->devices[i].name, here->devices[i].name);
	}
	return 0;
}
