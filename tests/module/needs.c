/* A module that cannot be opened, because the library that it needs is not found. */
int mpt_fake_needed(void);
int mpt_fake_module(void);

__attribute__((visibility("default"))) int mpt_fake_module(void) {
    return mpt_fake_needed();
}
