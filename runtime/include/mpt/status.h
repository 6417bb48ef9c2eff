/* Every way a call can end, in one list that makes the enum, the names and the texts.
 *
 * The meanings say what the caller should do, because that is what a caller decides on. */
#ifndef MPT_STATUS_H
#define MPT_STATUS_H

/* X(NAME, "meaning") */
#define MPT_STATUS_LIST(X)                                                                     \
    X(OK, "done")                                                                              \
    X(INVALID, "the recipe or an argument is wrong: mend it, the error says where")            \
    X(NOT_FOUND, "a file or a name does not exist: check its spelling")                        \
    X(DATA, "data or a checkpoint is wrong: the error names the file")                         \
    X(UNSUPPORTED, "this build or device cannot do that: the error says what can")             \
    X(OUT_OF_MEMORY, "the allocator refused: free memory or choose a smaller model")           \
    X(IO, "the file system failed: check space and permissions")                               \
    X(STOPPED, "training stopped itself: the error names the first bad tensor")                \
    X(INTERRUPTED, "the host asked to stop: nothing is wrong")                                 \
    X(NO_DEVICE, "the device that was asked for is not there: compute on another")             \
    X(INTERNAL, "a fault of mpt itself: please report it")

typedef enum mpt_status {
#define MPT_STATUS_ENUM(name, text) MPT_##name,
    MPT_STATUS_LIST(MPT_STATUS_ENUM)
#undef MPT_STATUS_ENUM
        MPT_STATUS_COUNT
} mpt_status;

#endif
