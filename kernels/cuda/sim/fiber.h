/* Fibers: stacks that one OS thread switches between.
 *
 * The switch is a dozen instructions of assembly on x86-64 and AArch64, ucontext elsewhere or
 * where CUSIM_UCONTEXT is defined. AddressSanitizer is told of every switch. A fiber never
 * ends: its main function waits for more work instead, so stacks are made once a process. */
#ifndef MPT_KERNELS_CUDA_SIM_FIBER_H
#define MPT_KERNELS_CUDA_SIM_FIBER_H

#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__)
#define CUSIM_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CUSIM_ASAN 1
#endif
#endif
#if !defined(CUSIM_UCONTEXT) && !defined(__x86_64__) && !defined(__aarch64__)
#define CUSIM_UCONTEXT 1
#endif
#if defined(CUSIM_UCONTEXT)
#include <ucontext.h>
#endif

namespace cusim {

struct fiber {
#if defined(CUSIM_UCONTEXT)
    ucontext_t context;
#else
    void *sp = nullptr; /* where its registers are kept while another one runs */
#endif
    const char *bottom = nullptr; /* of its stack */
    size_t bytes = 0;
    void *fake_stack = nullptr; /* the sanitizer's */
};

/* A fiber with a stack of its own above a page that cannot be touched. `main` does not return,
 * and begins with fiber_entered. NULL: no memory. */
fiber *fiber_make(void (*main)());

/* Goes on in `to`; returns when something switches back to `from`. */
void fiber_switch(fiber *from, fiber *to);
void fiber_entered();

} // namespace cusim
#endif
