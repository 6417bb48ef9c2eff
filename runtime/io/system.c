/* Memory and processors of this machine, from /proc and the container's limits. */
#include "io/system.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

/* The number in a file that holds nothing else; UINT64_MAX where there is none ("max"). */
static uint64_t read_number(const char *path) {
    uint64_t value = UINT64_MAX;
    FILE *file = fopen(path, "r");
    if (!file)
        return UINT64_MAX;
    if (fscanf(file, "%" SCNu64, &value) != 1)
        value = UINT64_MAX;
    fclose(file);
    return value;
}

static uint64_t available_memory(void) {
    char line[128];
    uint64_t kib = 0;
    FILE *file = fopen("/proc/meminfo", "r");
    if (!file)
        return 0;
    while (kib == 0 && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %" SCNu64, &kib) != 1)
            kib = 0;
    fclose(file);
    return kib * 1024;
}

uint64_t mpt_system_memory(void) {
    uint64_t available = available_memory();
    uint64_t limit = read_number("/sys/fs/cgroup/memory.max");
    uint64_t used = read_number("/sys/fs/cgroup/memory.current");
    if (limit != UINT64_MAX && used != UINT64_MAX) {
        uint64_t left = limit > used ? limit - used : 0;
        if (available == 0 || left < available)
            available = left;
    }
    return available;
}

uint64_t mpt_system_resident(uint64_t *out_most) {
    char line[128];
    uint64_t now = 0, most = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file)) {
        (void)sscanf(line, "VmRSS: %" SCNu64, &now);
        (void)sscanf(line, "VmHWM: %" SCNu64, &most);
    }
    if (file)
        fclose(file);
    *out_most = most * 1024;
    return now * 1024;
}

int mpt_system_processors(void) {
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : (int)n;
}
