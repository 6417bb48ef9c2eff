/* The header of an ELF file, as far as the loader trusts it. See elf.h.
 *
 * The layout is that of the System V ABI: the header, and from e_phoff on e_phnum entries that
 * say which bytes of the file, p_filesz from p_offset on, are mapped. */
#include "io/elf.h"

#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* EM_NONE: a processor whose number is not known here, which is left to the loader. */
static const unsigned machine =
#if defined(__x86_64__)
    EM_X86_64;
#elif defined(__aarch64__)
    EM_AARCH64;
#else
    EM_NONE;
#endif
static const unsigned char own_class = sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32;
static const unsigned char own_order =
    __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;

typedef struct reading {
    int fd;
    uint64_t bytes; /* of the file */
    char *why;
    size_t size; /* of why */
} reading;

static mpt_elf broken(const reading *r, const char *what) {
    snprintf(r->why, r->size, "%s", what);
    return MPT_ELF_BROKEN;
}

/* Whether the file has `n` bytes from `at` on. */
static bool holds(const reading *r, uint64_t at, uint64_t n) {
    return n <= r->bytes && at <= r->bytes - n;
}

static bool read_at(const reading *r, uint64_t at, void *out, size_t n) {
    return holds(r, at, n) && pread(r->fd, out, n, (off_t)at) == (ssize_t)n;
}

static mpt_elf check_header(const reading *r, ElfW(Ehdr) * header) {
    if (r->bytes == 0)
        return broken(r, "is empty");
    if (!read_at(r, 0, header->e_ident, sizeof header->e_ident) ||
        memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
        return broken(r, "is no shared library");
    if (header->e_ident[EI_CLASS] != own_class || header->e_ident[EI_DATA] != own_order) {
        (void)broken(r, "is a library for another kind of processor");
        return MPT_ELF_FOREIGN;
    }
    if (!read_at(r, 0, header, sizeof *header))
        return broken(r, "is cut off inside its header");
    if (machine != EM_NONE && header->e_machine != machine) {
        (void)broken(r, "is a library for another kind of processor");
        return MPT_ELF_FOREIGN;
    }
    if (header->e_ident[EI_VERSION] != EV_CURRENT || header->e_type != ET_DYN ||
        header->e_phentsize != sizeof(ElfW(Phdr)) || header->e_phnum == 0 ||
        header->e_phnum == PN_XNUM)
        return broken(r, "is no shared library");
    return MPT_ELF_SOUND;
}

static mpt_elf check_segments(const reading *r, const ElfW(Ehdr) * header) {
    bool loads = false, is_dynamic = false;
    for (unsigned i = 0; i < header->e_phnum; i++) {
        ElfW(Phdr) p;
        uint64_t at = i * sizeof p;
        if (header->e_phoff > UINT64_MAX - at ||
            !read_at(r, header->e_phoff + at, &p, sizeof p))
            return broken(r, "is cut off inside its header");
        if (!holds(r, p.p_offset, p.p_filesz)) {
            snprintf(r->why, r->size,
                     "is cut off: it has %" PRIu64 " bytes, and its header speaks of more",
                     r->bytes);
            return MPT_ELF_BROKEN;
        }
        if (p.p_type == PT_LOAD && p.p_filesz > p.p_memsz)
            return broken(r, "is no shared library: its header contradicts itself");
        loads = loads || p.p_type == PT_LOAD;
        is_dynamic = is_dynamic || (p.p_type == PT_DYNAMIC && p.p_filesz > 0);
    }
    return loads && is_dynamic ? MPT_ELF_SOUND : broken(r, "is no shared library");
}

mpt_elf mpt_elf_check(const char *path, char *why, size_t size) {
    struct stat st;
    ElfW(Ehdr) header;
    reading r = {-1, 0, why, size};
    if (size > 0)
        why[0] = 0;
    if (stat(path, &st) != 0)
        return broken(&r,
                      lstat(path, &st) == 0 ? "is a link that leads nowhere" : "is not there");
    if (!S_ISREG(st.st_mode))
        return broken(&r, "is no regular file");
    r.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (r.fd < 0)
        return broken(&r, "cannot be read");
    mpt_elf found = MPT_ELF_BROKEN;
    if (fstat(r.fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        (void)broken(&r, "is no regular file");
    } else {
        r.bytes = (uint64_t)st.st_size;
        found = check_header(&r, &header);
        if (found == MPT_ELF_SOUND)
            found = check_segments(&r, &header);
    }
    close(r.fd);
    return found;
}
