/* Whether a file is a shared library of this machine and all there, before anything maps it.
 *
 * The system's loader trusts what a library's header says: where the file ends sooner, the
 * process is killed when it touches a page behind the end, and a pipe in the library's place is
 * waited for without end. So that part of the header is read here first, by plain reads. */
#ifndef MPT_IO_ELF_H
#define MPT_IO_ELF_H

#include <stddef.h>

typedef enum mpt_elf {
    MPT_ELF_SOUND,
    MPT_ELF_FOREIGN, /* of another kind of processor, which the loader passes over */
    MPT_ELF_BROKEN
} mpt_elf;

/* Where it is not sound, `why` says what it is instead, to be read behind the file's path: "is
 * cut off: ...". Prints nothing, waits for nothing. */
mpt_elf mpt_elf_check(const char *path, char *why, size_t size);

#endif
