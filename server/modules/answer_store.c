/*
 * server/modules/answer_store.c - see answer_store.h.
 *
 * Several sessions may add to a file at once: each writes whole pairs at its end. A pair that is
 * there twice does no harm. Each identity has a folder of its own, answers/KEY.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cricket.h"
#include "gen/handlers.h"
#include "server/modules/answer_store.h"
#include "server/modules/cachedir.h"
#include "server/session/session.h"
#include "util/log.h"
#include "util/util.h"

CK_LOG_DEFINE("server");

#define FOLDER "answers"

struct cks_answer_store {
	int fd;
	size_t size;
};

/* An identity's folder, in @folder: a descriptor, or -1. */
static int open_own(int folder, const char *key)
{
	return openat(folder, key, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static long count_files(int folder, const char *key)
{
	struct cks_cachefile *files = NULL;
	int own = open_own(folder, key);
	long count = own < 0 ? 0 : cks_cachedir_scan(own, &files);

	if (own >= 0)
		close(own);
	free(files);
	return ck_max(count, 0L);
}

static void remove_oldest(int folder, const char *key)
{
	struct cks_cachefile *files = NULL;
	int own = open_own(folder, key);
	long count = own < 0 ? 0 : cks_cachedir_scan(own, &files);

	if (count > 0)
		cks_cachedir_remove(own, &files[count - 1].hash);
	if (own >= 0)
		close(own);
	free(files);
	unlinkat(folder, key, AT_REMOVEDIR); /* if it was the last one */
}

/* One file more is coming, of the identity with the folder @own. If there are too many, the
 * identity that has most of them loses one: so none loses any to one that has more. */
static void make_room(int folder, const char *own)
{
	int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = fd >= 0 ? fdopendir(fd) : NULL;
	char loser[CK_HASH_TEXT] = "";
	long total = 1, most = 0;
	struct dirent *entry;
	struct ck_hash hash;

	while (list && (entry = readdir(list))) {
		long count;

		if (ck_hash_parse(entry->d_name, &hash) < 0)
			continue;
		count = count_files(folder, entry->d_name);
		total += count;
		count += count > 0 && strcmp(entry->d_name, own) == 0;
		if (count > most) {
			most = count;
			ck_hash_print(&hash, loser);
		}
	}
	if (list)
		closedir(list);
	else if (fd >= 0)
		close(fd);
	if (total > CK_ANSWER_STORE_FILES && most > 0)
		remove_oldest(folder, loser);
}

static int open_folder(const char *cache_dir)
{
	int dir = cks_cachedir_open(cache_dir), folder, ret;

	if (dir < 0)
		return dir;
	mkdirat(dir, FOLDER, 0700);
	folder = openat(dir, FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	ret = -errno;
	close(dir);
	return folder < 0 ? ret : folder;
}

static void name_file(const struct ck_hash *identity, const char *program,
		      const struct ck_hash *world, char name[CK_HASH_TEXT])
{
	struct {
		struct ck_hash identity, world;
		char program[256];
	} subject = {.identity = *identity, .world = *world};
	struct ck_hash hash;

	strncpy(subject.program, program, sizeof(subject.program) - 1);
	ck_hash(&subject, sizeof(subject), &hash);
	ck_hash_print(&hash, name);
}

/* Open the file, for appending; 0 bytes if it is new. -errno */
static int open_file(int folder, const char *key, const char *name)
{
	const int flags = O_RDWR | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
	int own = open_own(folder, key), fd = own < 0 ? -1 : openat(own, name, flags), ret;

	if (fd < 0 && errno == ENOENT) {
		if (own >= 0)
			close(own);
		make_room(folder, key);
		mkdirat(folder, key, 0700);
		own = open_own(folder, key);
		fd = own < 0 ? -1 : openat(own, name, flags | O_CREAT, 0600);
	}
	ret = fd < 0 ? -errno : fd;
	if (own >= 0)
		close(own);
	return ret;
}

struct cks_answer_store *cks_answer_store_open(const char *cache_dir,
					       const struct ck_hash *identity, const char *program,
					       const struct ck_hash *world)
{
	struct cks_answer_store *answers = calloc(1, sizeof(*answers));
	int folder = open_folder(cache_dir);
	char key[CK_HASH_TEXT], name[CK_HASH_TEXT];
	struct stat st;

	if (!answers || folder < 0)
		goto fail;
	ck_hash_print(identity, key);
	name_file(identity, program, world, name);
	answers->fd = open_file(folder, key, name);
	close(folder);
	folder = -1;
	if (answers->fd < 0)
		goto fail;
	if (fstat(answers->fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		close(answers->fd);
		goto fail;
	}
	futimens(answers->fd, NULL); /* it is in use */
	answers->size = (size_t)st.st_size;
	return answers;
fail:
	if (folder >= 0)
		close(folder);
	free(answers);
	return NULL;
}

void cks_answer_store_close(struct cks_answer_store *answers)
{
	if (!answers)
		return;
	close(answers->fd);
	free(answers);
}

void *cks_answer_store_read(const struct cks_answer_store *answers, size_t *size)
{
	size_t want = answers ? ck_min(answers->size, (size_t)CK_RECALLED_MAX) : 0;
	unsigned char *data = want > 0 ? malloc(want) : NULL;
	ssize_t n = data ? pread(answers->fd, data, want, 0) : -1;

	if (n < CK_ANSWER) {
		free(data);
		return NULL;
	}
	*size = (size_t)n - (size_t)n % CK_ANSWER;
	return data;
}

int cks_answer_store_add(struct cks_answer_store *answers, const void *pairs, size_t size)
{
	ssize_t n;

	if (size == 0 || size % CK_ANSWER != 0)
		return -EINVAL;
	if (!answers || answers->size + size > CK_RECALLED_MAX)
		return -ENOSPC;
	n = write(answers->fd, pairs, size);
	if (n > 0)
		answers->size += (size_t)n;
	return n == (ssize_t)size ? 0 : n < 0 ? -errno : -ENOSPC;
}

/* A client that has learned more than is kept goes on as it is. */
CUresult ck_serve_learned(struct cks_request *q, ck_learned_args *a, void *res)
{
	int ret = cks_answer_store_add(q->session->answers, a->answers.answers_val,
				       a->answers.answers_len);

	(void)res;
	if (ret < 0)
		ck_debug("an answer is not kept: %s", strerror(-ret));
	return CUDA_SUCCESS;
}
