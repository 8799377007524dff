/*
 * libcuda/visible.c - CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER; see visible.h.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "libcuda/visible.h"

#define UUID_TEXT 37 /* 8-4-4-4-12 and the NUL */

static bool pci_before(const struct ck_visible_device *a, const struct ck_visible_device *b)
{
	if (a->pci_domain != b->pci_domain)
		return a->pci_domain < b->pci_domain;
	if (a->pci_bus != b->pci_bus)
		return a->pci_bus < b->pci_bus;
	return a->pci_device < b->pci_device;
}

/* Insertion sort: stable, and there are few devices. */
static void sort_by_pci(const struct ck_visible_device *devices, int count, int *sorted)
{
	for (int i = 1; i < count; i++) {
		int moved = sorted[i], at = i;

		for (; at > 0 && pci_before(&devices[moved], &devices[sorted[at - 1]]); at--)
			sorted[at] = sorted[at - 1];
		sorted[at] = moved;
	}
}

static void uuid_text(const unsigned char *u, char text[UUID_TEXT])
{
	snprintf(text, UUID_TEXT,
		 "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1],
		 u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14],
		 u[15]);
}

/* The position in @sorted of the only device whose UUID begins with @prefix, or -1. */
static int find_uuid(const struct ck_visible_device *devices, int count, const int *sorted,
		     bool mig, const char *prefix, size_t length)
{
	char text[UUID_TEXT];
	int found = -1;

	for (int i = 0; i < count; i++) {
		const struct ck_visible_device *d = &devices[sorted[i]];

		uuid_text(mig ? d->mig_uuid : d->uuid, text);
		if (length == 0 || length >= UUID_TEXT || strncasecmp(text, prefix, length) != 0)
			continue;
		if (found >= 0)
			return -1;
		found = i;
	}
	return found;
}

/* The position in @sorted that one entry of the list names, or -1. */
static int find_entry(const struct ck_visible_device *devices, int count, const int *sorted,
		      const char *entry, size_t length)
{
	char *end;
	long index;

	if (length > 4 && strncmp(entry, "GPU-", 4) == 0)
		return find_uuid(devices, count, sorted, false, entry + 4, length - 4);
	if (length > 4 && strncmp(entry, "MIG-", 4) == 0)
		return find_uuid(devices, count, sorted, true, entry + 4, length - 4);
	if (length == 0 || !isdigit((unsigned char)entry[0]))
		return -1;
	index = strtol(entry, &end, 10);
	return end == entry + length && index < count ? (int)index : -1;
}

/* Is that the usual way to say that the list ends, or that no device is to be seen? Batch systems
 * write it too. */
static bool is_end(const char *entry, size_t length)
{
	static const char *const words[] = {"NoDevFiles", "none", "void"};

	if (length > 1 && entry[0] == '-')
		return strspn(entry + 1, "0123456789") == length - 1;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strlen(words[i]) == length && strncasecmp(words[i], entry, length) == 0)
			return true;
	}
	return false;
}

static bool is_chosen(const int *chosen, int n, int device)
{
	for (int i = 0; i < n; i++) {
		if (chosen[i] == device)
			return true;
	}
	return false;
}

int ck_visible_choose(const struct ck_visible_device *devices, int count, const char *order,
		      const char *list, int *chosen, bool *bad)
{
	int *sorted = count > 0 ? malloc((size_t)count * sizeof(*sorted)) : NULL;
	int n = 0;

	*bad = false;
	if (!sorted)
		return 0;
	for (int i = 0; i < count; i++)
		sorted[i] = i;
	if (order && strcmp(order, "PCI_BUS_ID") == 0)
		sort_by_pci(devices, count, sorted);
	if (!list) {
		memcpy(chosen, sorted, (size_t)count * sizeof(*sorted));
		n = count;
	}
	for (const char *at = list && *list ? list : NULL; at;) {
		size_t skip = strspn(at, " \t"), length = strcspn(at + skip, ", \t");
		const char *entry = at + skip;
		int i = find_entry(devices, count, sorted, entry, length);

		if (i >= 0 && is_chosen(chosen, n, sorted[i])) {
			n = -1;
			break;
		}
		if (i < 0) {
			*bad = !is_end(entry, length);
			break;
		}
		chosen[n++] = sorted[i];
		entry += length;
		entry += strspn(entry, " \t");
		at = *entry == ',' ? entry + 1 : NULL;
		*bad = *entry && !at;
	}
	free(sorted);
	return n;
}
