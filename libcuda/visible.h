/*
 * libcuda/visible.h - which devices of the server the application sees, and in which order.
 *
 * CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER as the CUDA C++ Programming Guide describes them;
 * pure functions over the server's answers.
 */
#ifndef CK_LIBCUDA_VISIBLE_H
#define CK_LIBCUDA_VISIBLE_H

#include <stdbool.h>

struct ck_visible_device {
	unsigned char uuid[16];
	unsigned char mig_uuid[16]; /* of the part of a GPU that this is; else the same */
	int pci_domain, pci_bus, pci_device;
};

/*
 * Choose from @count devices. @order: value of CUDA_DEVICE_ORDER, NULL for unset; PCI_BUS_ID sorts
 * by PCI address, all else keeps the server's order. @list: value of CUDA_VISIBLE_DEVICES: NULL
 * shows all, "" none; else indices (into the order above) and `GPU-` with the beginning of a
 * UUID, which must fit exactly one device; `MIG-` with that of a MIG device's own UUID; the
 * driver of an H200 takes a whole GPU's there too. The first entry that names no device ends the
 * list; one that names a device again is an error, as that driver has it.
 *
 * Writes the chosen devices' indices to @chosen, which has room for @count, and returns how many,
 * or -1 for a device named twice.
 * *@bad is set when an entry ended the list early (for a line in the log), unless it is one that
 * people and batch systems use for that: a negative number, NoDevFiles, none, void.
 */
int ck_visible_choose(const struct ck_visible_device *devices, int count, const char *order,
		      const char *list, int *chosen, bool *bad);

#endif
