/*
 * server/modules/module.h - arriving images of modules.
 */
#ifndef CK_SERVER_MODULES_MODULE_H
#define CK_SERVER_MODULES_MODULE_H

/* The image that is arriving in pieces on the command connection. -ENOMEM. */
struct ck_assembly;

int ck_assembly_create(struct ck_assembly **assembly);
void ck_assembly_destroy(struct ck_assembly *assembly);

#endif
