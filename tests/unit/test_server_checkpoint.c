/*
 * tests/unit/test_server_checkpoint.c - the files of a checkpoint: only complete and unchanged
 * files are read. CRIU itself is tested by tests/e2e/test_checkpoint.py.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/checkpoint/checkpoint.h"
#include "server/checkpoint/compress.h"
#include "server/checkpoint/criu.h"
#include "server/checkpoint/store.h"
#include "server_place.h"
#include "util/process/fd.h"
#include "util/util.h"

#define BIG ((size_t)5 << 20) /* several blocks */

static int setup(void **state)
{
	struct place *p = calloc(1, sizeof(*p));

	*state = p;
	return p ? place_open(p) : -1;
}

static int teardown(void **state)
{
	struct place *p = *state;

	place_close(p);
	free(p);
	return 0;
}

static void put_file(struct place *p, const char *name, const void *data, size_t size)
{
	int fd = openat(p->dir, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(ck_fd_write_full(fd, data, size), 0);
	close(fd);
}

static size_t get_file(struct place *p, const char *name, void *data, size_t room)
{
	int fd = openat(p->dir, name, O_RDONLY);
	ssize_t n, size = 0;

	assert_true(fd >= 0);
	while ((n = read(fd, (char *)data + size, room - (size_t)size)) > 0)
		size += n;
	close(fd);
	return (size_t)size;
}

static bool has_file(struct place *p, const char *name)
{
	return faccessat(p->dir, name, F_OK, 0) == 0;
}

/* Half of it repeats, half does not. */
static unsigned char *make_data(size_t size)
{
	unsigned char *data = malloc(size);
	uint32_t x = 1;

	for (size_t i = 0; i < size; i++) {
		x = x * 1664525 + 1013904223;
		data[i] = i < size / 2 ? (unsigned char)i : (unsigned char)(x >> 24);
	}
	return data;
}

/* --- pack */

static void pack_and_back(struct place *p, const void *data, size_t size)
{
	struct cks_packed packed;
	unsigned char *back = malloc(size + 1);

	put_file(p, "image", data, size);
	assert_int_equal(cks_pack_file(p->dir, p->dir, "image", &packed, &p->why), 0);
	assert_string_equal(packed.name, "image");
	assert_int_equal(packed.size, size);
	unlinkat(p->dir, "image", 0);
	assert_int_equal(cks_unpack_file(p->dir, p->dir, &packed, &p->why), 0);
	assert_int_equal(get_file(p, "image", back, size + 1), size);
	assert_memory_equal(back, data, size);
	unlinkat(p->dir, "image", 0);
	unlinkat(p->dir, "image.zst", 0);
	free(back);
}

static void a_file_comes_back_as_it_was(void **state)
{
	unsigned char *data = make_data(BIG);
	const size_t sizes[] = {0, 1, 4096, ((size_t)1 << 20) - 1, (size_t)1 << 20, BIG};

	for (size_t i = 0; i < CK_ARRAY_SIZE(sizes); i++)
		pack_and_back(*state, data, sizes[i]);
	free(data);
}

static void a_packed_file_is_smaller_and_only_its_owners(void **state)
{
	struct place *p = *state;
	struct cks_packed packed;
	unsigned char *data = make_data(BIG);
	struct stat st;

	put_file(p, "image", data, BIG);
	assert_int_equal(cks_pack_file(p->dir, p->dir, "image", &packed, &p->why), 0);
	assert_int_equal(fstatat(p->dir, "image.zst", &st, 0), 0);
	assert_int_equal(st.st_size, packed.stored);
	assert_true(packed.stored < BIG * 6 / 10);
	assert_int_equal(st.st_mode & 07777, 0600);
	free(data);
}

static void a_changed_byte_is_found_before_anything_is_unpacked(void **state)
{
	struct place *p = *state;
	struct cks_packed packed;
	unsigned char *data = make_data(10000), stored[20000];
	size_t size;

	put_file(p, "image", data, 10000);
	assert_int_equal(cks_pack_file(p->dir, p->dir, "image", &packed, &p->why), 0);
	unlinkat(p->dir, "image", 0);
	size = get_file(p, "image.zst", stored, sizeof(stored));
	for (size_t i = 0; i < size; i += 97) {
		stored[i] ^= 1;
		put_file(p, "image.zst", stored, size);
		stored[i] ^= 1;
		assert_int_equal(cks_unpack_file(p->dir, p->dir, &packed, &p->why), -EBADMSG);
		assert_non_null(strstr(p->why.text, "image.zst: its content has changed"));
		get_file(p, "image", data, 1);
		assert_int_equal(unlinkat(p->dir, "image", 0), 0);
	}
	put_file(p, "image.zst", stored, size - 1);
	assert_int_equal(cks_unpack_file(p->dir, p->dir, &packed, &p->why), -EBADMSG);
	free(data);
}

/* A manifest that was written to go with a wrong file has the right hash of it. */
static void a_frame_that_is_not_what_the_manifest_says_is_refused(void **state)
{
	struct place *p = *state;
	struct cks_packed packed;
	unsigned char *data = make_data(10000), stored[20000];

	put_file(p, "image", data, 10000);
	assert_int_equal(cks_pack_file(p->dir, p->dir, "image", &packed, &p->why), 0);
	unlinkat(p->dir, "image", 0);
	packed.size--;
	assert_int_equal(cks_unpack_file(p->dir, p->dir, &packed, &p->why), -EBADMSG);
	assert_int_equal(get_file(p, "image", stored, sizeof(stored)), 0);
	unlinkat(p->dir, "image", 0);
	packed.size++;
	get_file(p, "image.zst", stored, sizeof(stored));
	packed.stored -= 5;
	ck_hash(stored, packed.stored, &packed.hash);
	put_file(p, "image.zst", stored, packed.stored);
	assert_int_equal(cks_unpack_file(p->dir, p->dir, &packed, &p->why), -EBADMSG);
	assert_non_null(strstr(p->why.text, "ends too early"));
	free(data);
}

static void a_name_that_leads_elsewhere_is_no_name(void **state)
{
	struct place *p = *state;
	struct cks_packed packed = {.name = "../x"};
	char name[CK_PACK_NAME + 1];

	assert_true(cks_pack_name_valid("core-12.img"));
	assert_false(cks_pack_name_valid(""));
	assert_false(cks_pack_name_valid("."));
	assert_false(cks_pack_name_valid(".."));
	assert_false(cks_pack_name_valid("../x"));
	assert_false(cks_pack_name_valid("/x"));
	assert_false(cks_pack_name_valid("a/x"));
	assert_false(cks_pack_name_valid("a\nx"));
	assert_false(cks_pack_name_valid("a\x1b[2Jx"));
	assert_false(cks_pack_name_valid("a\xc2\x9bx"));
	memset(name, 'a', CK_PACK_NAME);
	name[CK_PACK_NAME] = '\0';
	assert_false(cks_pack_name_valid(name));
	assert_int_equal(cks_unpack_file(p->dir, p->dir, &packed, &p->why), -EINVAL);
	assert_int_equal(cks_pack_file(p->dir, p->dir, "a/x", &packed, &p->why), -EINVAL);
}

/* --- manifest */

static struct cks_manifest *make_manifest(void)
{
	struct cks_manifest *m = calloc(1, sizeof(*m));

	strcpy(m->release, "0.1.0");
	strcpy(m->session, "s3");
	strcpy(m->application, "train \"it\"\n");
	m->created = 1700000000;
	m->memory = (uint64_t)60 << 30;
	strcpy(m->gpu.machine, "aarch64");
	strcpy(m->gpu.driver, "emu");
	m->gpu.version = 13000;
	m->gpu.count = 2;
	strcpy(m->gpu.devices[0].name, "Emulated");
	strcpy(m->gpu.devices[0].uuid, "GPU-1");
	strcpy(m->gpu.devices[1].name, "Emulated");
	m->pid = 4711;
	m->threads = calloc(2, sizeof(*m->threads));
	m->threads[0] = 4711;
	m->threads[1] = 4712;
	m->thread_count = 2;
	m->outside.count = 2;
	m->outside.files[0] =
		(struct cks_external_fds_file){CK_EXTERNAL_FDS_CONTROL, "socket:[77]"};
	m->outside.files[1] = (struct cks_external_fds_file){CK_EXTERNAL_FDS_LOG, "file[1b:2c]"};
	m->images = calloc(1, sizeof(*m->images));
	strcpy(m->images[0].name, "pages-1.img");
	m->images[0].size = (uint64_t)80 << 30;
	m->images[0].stored = 12345;
	ck_hash("x", 1, &m->images[0].hash);
	m->image_count = 1;
	return m;
}

static void free_manifest(struct cks_manifest *m)
{
	cks_manifest_free(m);
	free(m);
}

static void a_manifest_comes_back_as_it_was(void **state)
{
	struct place *p = *state;
	struct cks_manifest *m = make_manifest(), *back = calloc(1, sizeof(*back));

	assert_int_equal(cks_manifest_write(p->dir, m, &p->why), 0);
	assert_int_equal(cks_manifest_read(p->dir, back, &p->why), 0);
	assert_string_equal(back->session, "s3");
	assert_string_equal(back->application, m->application);
	assert_int_equal(back->created, 1700000000);
	assert_int_equal(back->memory, (uint64_t)60 << 30);
	assert_string_equal(back->gpu.machine, "aarch64");
	assert_string_equal(back->gpu.driver, "emu");
	assert_int_equal(back->gpu.version, 13000);
	assert_int_equal(back->gpu.count, 2);
	assert_string_equal(back->gpu.devices[0].uuid, "GPU-1");
	assert_int_equal(back->pid, 4711);
	assert_int_equal(back->thread_count, 2);
	assert_int_equal(back->threads[1], 4712);
	assert_int_equal(back->outside.count, 2);
	assert_int_equal(back->outside.files[1].role, CK_EXTERNAL_FDS_LOG);
	assert_string_equal(back->outside.files[1].id, "file[1b:2c]");
	assert_int_equal(back->image_count, 1);
	assert_int_equal(back->images[0].size, (uint64_t)80 << 30);
	assert_true(ck_hash_equal(&back->images[0].hash, &m->images[0].hash));
	free_manifest(back);
	free_manifest(m);
}

/* Each one is the good text with one part of it replaced. */
static void a_wrong_manifest_is_refused(void **state)
{
	static const char *const changes[][2] = {
		{"\"format\": 1", "\"format\": 2"},
		{"\"session\": \"s3\"", "\"session\": 3"},
		{"\"pid\": 4711", "\"pid\": 0"},
		{"\"pid\": 4711", "\"pid\": 99999999999"},
		{"4712", "-4712"},
		{"\"control\"", "\"other\""},
		{"pages-1.img", "../pages-1.img"},
		{"12345", "-12345"},
		{"\"blake2b\": \"", "\"blake2b\": \"0"},
		{"\"version\": 13000", "\"version\": \"13000\""},
		{"\"images\"", "\"image\""},
		{"]", ""},
	};
	struct place *p = *state;
	struct cks_manifest *m = make_manifest(), back;
	char text[4096], wrong[4200], *at;
	size_t size;

	assert_int_equal(cks_manifest_write(p->dir, m, &p->why), 0);
	size = get_file(p, "manifest.json", text, sizeof(text) - 1);
	text[size] = '\0';
	assert_int_equal(cks_manifest_parse(text, size, &back, &p->why), 0);
	cks_manifest_free(&back);
	for (size_t i = 0; i < CK_ARRAY_SIZE(changes); i++) {
		at = strstr(text, changes[i][0]);
		assert_non_null(at);
		snprintf(wrong, sizeof(wrong), "%.*s%s%s", (int)(at - text), text, changes[i][1],
			 at + strlen(changes[i][0]));
		assert_int_equal(cks_manifest_parse(wrong, strlen(wrong), &back, &p->why),
				 -EBADMSG);
		assert_null(back.images);
	}
	for (size_t i = 0; i < size; i++)
		assert_int_equal(cks_manifest_parse(text, i, &back, &p->why), -EBADMSG);
	free_manifest(m);
}

/* Releases before 0.2.0 ran on one kind of processor, and did not write it. */
static void a_manifest_without_a_processor_is_of_x86_64(void **state)
{
	struct place *p = *state;
	struct cks_manifest *m = make_manifest(), back;
	json_t *json = cks_manifest_json(m);

	json_object_del(json_object_get(json, "gpu"), "machine");
	assert_int_equal(cks_manifest_take(json, &back, &p->why), 0);
	assert_string_equal(back.gpu.machine, "x86_64");
	cks_manifest_free(&back);
	json_decref(json);
	free_manifest(m);
}

/* GPUs of the machine that its server does not show. */
static void hidden_gpus_are_read_again_and_may_be_missing(void **state)
{
	struct place *p = *state;
	struct cks_manifest *m = make_manifest(), back;
	json_t *json, *gpu;

	m->gpu.hidden_count = 1;
	strcpy(m->gpu.hidden[0].name, "Emulated");
	strcpy(m->gpu.hidden[0].uuid, "GPU-7");
	json = cks_manifest_json(m);
	gpu = json_object_get(json, "gpu");
	assert_int_equal(cks_manifest_take(json, &back, &p->why), 0);
	assert_int_equal(back.gpu.hidden_count, 1);
	assert_string_equal(back.gpu.hidden[0].uuid, "GPU-7");
	assert_true(cks_manifest_names(&back.gpu, "GPU-1"));
	assert_false(cks_manifest_names(&back.gpu, "GPU-7"));
	cks_manifest_free(&back);
	json_object_del(gpu, "hidden"); /* of an older release */
	assert_int_equal(cks_manifest_take(json, &back, &p->why), 0);
	assert_int_equal(back.gpu.hidden_count, 0);
	cks_manifest_free(&back);
	json_object_set_new(gpu, "hidden", json_integer(1));
	assert_int_equal(cks_manifest_take(json, &back, &p->why), -EBADMSG);
	json_decref(json);
	free_manifest(m);
}

static void another_gpu_or_driver_is_named(void **state)
{
	struct place *p = *state;
	struct cks_manifest *m = make_manifest();
	struct cks_manifest_gpu here = m->gpu;

	strcpy(here.devices[0].uuid, "GPU-9"); /* another one of the same model */
	assert_int_equal(cks_manifest_fits(&m->gpu, &here, &p->why), 0);
	here.version = 12080;
	assert_int_equal(cks_manifest_fits(&m->gpu, &here, &p->why), -EXDEV);
	assert_non_null(strstr(p->why.text, "version 13000; here is emu, 12080"));
	here = m->gpu;
	strcpy(here.devices[1].name, "Other");
	assert_int_equal(cks_manifest_fits(&m->gpu, &here, &p->why), -EXDEV);
	assert_non_null(strstr(p->why.text, "GPU 1 must be a Emulated; here is a Other"));
	here = m->gpu;
	here.count = 1;
	assert_int_equal(cks_manifest_fits(&m->gpu, &here, &p->why), -EXDEV);
	here = m->gpu;
	strcpy(here.machine, "x86_64");
	assert_int_equal(cks_manifest_fits(&m->gpu, &here, &p->why), -EXDEV);
	assert_non_null(strstr(p->why.text, "needs a processor aarch64; here is x86_64"));
	free_manifest(m);
}

/* --- store */

static void a_folder_appears_as_a_whole_and_for_its_owner_only(void **state)
{
	struct place *p = *state;
	struct cks_store store;
	char path[128];
	struct stat st;
	int dir;

	snprintf(path, sizeof(path), "%s/c//", p->path);
	umask(0);
	assert_int_equal(cks_store_begin(path, false, &store, &p->why), 0);
	assert_false(has_file(p, "c"));
	assert_int_equal(fstat(store.dir, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(cks_store_commit(&store, &p->why), 0);
	cks_store_abandon(&store); /* does nothing now */
	assert_true(has_file(p, "c"));
	dir = cks_store_open(path, &p->why);
	assert_true(dir >= 0);
	close(dir);
	assert_int_equal(cks_store_begin(path, false, &store, &p->why), -EEXIST);
}

static void an_abandoned_folder_leaves_nothing(void **state)
{
	struct place *p = *state;
	struct cks_store store;
	char path[128];

	snprintf(path, sizeof(path), "%s/c", p->path);
	assert_int_equal(cks_store_begin(path, false, &store, &p->why), 0);
	assert_int_equal(mkdirat(store.dir, "images", 0700), 0);
	close(openat(store.dir, "images/a", O_CREAT | O_WRONLY, 0600));
	cks_store_abandon(&store);
	assert_int_equal(access(store.part, F_OK), -1);
	assert_false(has_file(p, "c"));
}

static void the_last_good_folder_is_replaced_at_once(void **state)
{
	struct place *p = *state;
	struct cks_store store;
	char path[128];

	snprintf(path, sizeof(path), "%s/c", p->path);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(cks_store_begin(path, true, &store, &p->why), 0);
		assert_int_equal(mkdirat(store.dir, i ? "second" : "first", 0700), 0);
		assert_true(i == 0 || has_file(p, "c/first")); /* until the next one is complete */
		assert_int_equal(cks_store_commit(&store, &p->why), 0);
	}
	assert_true(has_file(p, "c/second"));
	assert_false(has_file(p, "c/first"));
	assert_int_equal(access(store.part, F_OK), -1);
	put_file(p, "file", "x", 1);
	snprintf(path, sizeof(path), "%s/file", p->path);
	assert_int_equal(cks_store_begin(path, true, &store, &p->why), -EEXIST);
}

static void a_folder_that_others_may_enter_is_refused(void **state)
{
	struct place *p = *state;

	assert_int_equal(fchmod(p->dir, 0750), 0);
	assert_int_equal(cks_store_open(p->path, &p->why), -EPERM);
	assert_int_equal(fchmod(p->dir, 0700), 0);
	if (geteuid() == 0) {
		assert_int_equal(fchown(p->dir, 1, 1), 0);
		assert_int_equal(cks_store_open(p->path, &p->why), -EPERM);
	}
}

/* --- outside, criu */

static void control_socket_and_log_are_found(void **state)
{
	struct place *p = *state;
	struct cks_external_fds outside;
	char link[64], path[128];
	struct stat st;
	int pair[2], log;
	ssize_t n;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	put_file(p, "log", "x", 1);
	log = openat(p->dir, "log", O_WRONLY);
	assert_int_equal(cks_external_fds_find(getpid(), pair[0], log, &outside, &p->why), 0);
	assert_int_equal(outside.count, 2);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", pair[0]);
	n = readlink(path, link, sizeof(link) - 1);
	link[n] = '\0';
	assert_string_equal(outside.files[0].id, link);
	assert_int_equal(outside.files[0].role, CK_EXTERNAL_FDS_CONTROL);
	assert_int_equal(fstat(log, &st), 0);
	snprintf(path, sizeof(path), ":%llx]", (unsigned long long)st.st_ino);
	assert_int_equal(strncmp(outside.files[1].id, "file[", 5), 0);
	assert_non_null(strstr(outside.files[1].id, path));
	close(log);
	log = open("/dev/null", O_WRONLY);
	assert_int_equal(cks_external_fds_find(getpid(), pair[0], log, &outside, &p->why), 0);
	assert_int_equal(outside.count, 1);
	assert_int_equal(cks_external_fds_find(getpid(), log, log, &outside, &p->why), -ENOTSOCK);
	close(pair[0]);
	close(pair[1]);
	assert_int_equal(cks_external_fds_find(getpid(), pair[0], log, &outside, &p->why), -ENOENT);
	close(log);
}

static void a_criu_that_is_missing_or_old_is_named(void **state)
{
	struct place *p = *state;
	char path[128];

	assert_int_equal(cks_criu_check("/nowhere/criu", &p->why), -ENOENT);
	assert_non_null(strstr(p->why.text, "/nowhere/criu was not found"));
	snprintf(path, sizeof(path), "%s/criu", p->path);
	put_file(p, "criu", "#!/bin/sh\necho Version: 3.17.1\n", 31);
	chmod(path, 0700);
	assert_int_equal(cks_criu_check(path, &p->why), -ENOTSUP);
	assert_non_null(strstr(p->why.text, "is release 3.17; checkpoints need CRIU 4.1"));
	put_file(p, "criu", "#!/bin/sh\necho Version: 4.1.1\n\n", 31);
	assert_int_equal(cks_criu_check(path, &p->why), 0);
}

/* A CRIU that fails: what its log says first, without what it goes on after. */
static void the_first_error_of_the_log_is_the_reason(void **state)
{
	static const char script[] =
		"#!/bin/sh\n"
		"for a; do case $a in --log-file=*) log=${a#--log-file=};; esac; done\n"
		"echo '(00.1) Error (criu/util.c:1533): rlimit: Can not setup RLIMIT_NOFILE' "
		">>$log\n"
		"echo '(00.2) Error (criu/sk.c:1): unix: the cause' >>$log\n"
		"echo '(00.3) Error (criu/cr.c:2): Dumping FAILED.' >>$log\n"
		"exit 1\n";
	struct place *p = *state;
	struct cks_external_fds outside = {.count = 0};
	char program[128], log[128];
	struct cks_criu criu = {
		.program = program, .images = p->path, .log = log, .outside = &outside};

	snprintf(program, sizeof(program), "%s/criu", p->path);
	snprintf(log, sizeof(log), "%s/log", p->path);
	put_file(p, "criu", script, sizeof(script) - 1);
	chmod(program, 0700);
	assert_int_equal(cks_criu_dump(&criu, getpid(), CK_CRIU_STOPS, CK_CRIU_FILES, &p->why),
			 -EIO);
	assert_non_null(strstr(p->why.text, "dump: CRIU: unix: the cause (log: "));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_file_comes_back_as_it_was),
		TEST(a_packed_file_is_smaller_and_only_its_owners),
		TEST(a_changed_byte_is_found_before_anything_is_unpacked),
		TEST(a_frame_that_is_not_what_the_manifest_says_is_refused),
		TEST(a_name_that_leads_elsewhere_is_no_name),
		TEST(a_manifest_comes_back_as_it_was),
		TEST(a_wrong_manifest_is_refused),
		TEST(a_manifest_without_a_processor_is_of_x86_64),
		TEST(hidden_gpus_are_read_again_and_may_be_missing),
		TEST(another_gpu_or_driver_is_named),
		TEST(a_folder_appears_as_a_whole_and_for_its_owner_only),
		TEST(an_abandoned_folder_leaves_nothing),
		TEST(the_last_good_folder_is_replaced_at_once),
		TEST(a_folder_that_others_may_enter_is_refused),
		TEST(control_socket_and_log_are_found),
		TEST(a_criu_that_is_missing_or_old_is_named),
		TEST(the_first_error_of_the_log_is_the_reason),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
