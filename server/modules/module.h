/*
 * server/modules/module.h - arriving images of modules.
 */
#ifndef CK_SERVER_MODULES_MODULE_H
#define CK_SERVER_MODULES_MODULE_H

/* The image that is arriving in pieces on the command connection. -ENOMEM. */
struct cks_assembly;

int cks_assembly_create(struct cks_assembly **assembly);
void cks_assembly_destroy(struct cks_assembly *assembly);

#endif
