/* mpt_device_test [OPTION] PART... : what the kernels give on the device, held against the CPU.
 *
 * Parts: there, quantizers, products, reruns, speeds. Each prints what it compared and ends
 * with one line of numbers. --module FOLDER is where libmpt_cuda.so lies; --plant spoils what
 * is read, to see that the parts notice. Exit status: 0 all hold, 1 something differs, 2 a
 * wrong word, 77 there is no device, with a sentence that says what is missing. run.sh runs it
 * among other things. */
#include <string.h>

#include "rig.h"

typedef struct part {
    const char *name;
    void (*run)(rig *r);
} part;

/* That there is a device, and that it takes bytes and gives them back. */
static void look(rig *r) {
    const float x = 0x1.234566p3f;
    float got = 0;
    rig_tensor t = rig_tensor_of(r, MPT_DTYPE_FP32, MPT_STORAGE_HOST, 1, 0, &x);
    rig_bytes(r, &t, &got, "a number");
    rig_check(r, got == x, "a number came back as %a, not %a", (double)got, (double)x);
    rig_tensor_free(r, &t);
}

static const part parts[] = {{"there", look},
                             {"quantizers", rig_quantizers},
                             {"products", rig_products},
                             {"reruns", rig_reruns},
                             {"speeds", rig_speeds}};

static const part *part_named(const char *name) {
    for (size_t i = 0; i < MPT_COUNT(parts); i++)
        if (strcmp(parts[i].name, name) == 0)
            return &parts[i];
    return NULL;
}

static int run_parts(rig *r, int n, char **names) {
    int status = 0;
    for (int i = 0; i < n; i++) {
        r->checks = r->faults = 0;
        part_named(names[i])->run(r);
        fprintf(r->out, "%s: %lld checks, %lld differ\n", names[i], r->checks, r->faults);
        status = r->faults > 0 || r->checks == 0 ? 1 : status;
    }
    return status;
}

static int usage(const char *program) {
    fprintf(stderr, "usage: %s [--module FOLDER] [--plant] PART...\nparts:", program);
    for (size_t i = 0; i < MPT_COUNT(parts); i++)
        fprintf(stderr, " %s", parts[i].name);
    fputc('\n', stderr);
    return 2;
}

int main(int argc, char **argv) {
    char why[RIG_WHY] = "";
    rig r = {.out = stdout};
    const char *folder = NULL;
    int at = 1;
    for (; at < argc && argv[at][0] == '-'; at++)
        if (strcmp(argv[at], "--plant") == 0)
            r.planted = true;
        else if (strcmp(argv[at], "--module") == 0 && at + 1 < argc)
            folder = argv[++at];
        else
            return usage(argv[0]);
    for (int i = at; i < argc; i++)
        if (!part_named(argv[i]))
            return usage(argv[0]);
    if (at == argc)
        return usage(argv[0]);
    if (!rig_open(&r, folder, why)) {
        printf("skipped: %s\n", why);
        return 77;
    }
    int status = run_parts(&r, argc - at, argv + at);
    rig_close(&r);
    return status;
}
