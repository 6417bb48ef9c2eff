/* A library that another needs and that is nowhere when it is asked for. */
int mpt_fake_needed(void);

__attribute__((visibility("default"))) int mpt_fake_needed(void) {
    return 1;
}
