/* Version numbers and what they promise.
 *
 * Semantic versioning: until 1.0 a minor version may change the interface; a patch never does.
 * A host compares these macros with mpt_version() to find a header and a library that differ.
 */
#ifndef MPT_VERSION_H
#define MPT_VERSION_H

#define MPT_VERSION_MAJOR  0
#define MPT_VERSION_MINOR  1
#define MPT_VERSION_PATCH  0
#define MPT_VERSION_STRING "0.1.0"

#endif
