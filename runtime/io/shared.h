/* Shared libraries that are opened while the program runs: the only calls of dlopen.
 *
 * Paths name files, and a library is never looked for by environment variables of ours; what
 * it needs itself, and a bare name, the system's loader looks for as it always does. */
#ifndef MPT_IO_SHARED_H
#define MPT_IO_SHARED_H

#include <stdbool.h>
#include <stddef.h>

/* All its symbols are bound before this is back, and none is seen by other libraries. NULL: it
 * cannot be opened, and `why` holds the system's words for it. */
void *mpt_shared_open(const char *path, char *why, size_t size);

#define MPT_SHARED_CACHE "/etc/ld.so.cache"

/* The file that the loader comes upon first when a library is asked for by its bare name, sound
 * or not; `cache` is its list of libraries. False: none was seen. */
bool mpt_shared_locate(const char *name, const char *cache, char *out, size_t size);

/* The address of what it exports under a name; NULL: no such thing. */
void *mpt_shared_find(void *library, const char *name);

/* Unloads it, where nobody else has opened it. */
void mpt_shared_close(void *library);

/* The folder of the file that this code is in: the program, or libmpt.so. False: unknown. */
bool mpt_shared_own_folder(char *out, size_t size);

#endif
