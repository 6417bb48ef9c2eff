/* The switch itself, per processor, and what AddressSanitizer has to know of it. */
#include "kernels/cuda/sim/fiber.h"

#include <new>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(CUSIM_ASAN)
#include <sanitizer/common_interface_defs.h>
#endif

namespace cusim {

#if defined(CUSIM_ASAN)
static const size_t stack_bytes = 512 * 1024; /* red zones make frames several times as large */
#else
static const size_t stack_bytes = 64 * 1024;
#endif

#if !defined(CUSIM_UCONTEXT)
/* Keeps the registers that a call must preserve on the old stack, then takes those of the new
 * one from it, and returns there. */
extern "C" void cusim_switch_stacks(void **save_sp, void *load_sp);
#if defined(__x86_64__)
__asm__(".text\n.globl cusim_switch_stacks\n.hidden cusim_switch_stacks\n"
        ".type cusim_switch_stacks,@function\ncusim_switch_stacks:\n"
        "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
        "movq %rsp,(%rdi)\nmovq %rsi,%rsp\n"
        "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n"
        ".size cusim_switch_stacks,.-cusim_switch_stacks\n");
#else
__asm__(".text\n.globl cusim_switch_stacks\n.hidden cusim_switch_stacks\n"
        ".type cusim_switch_stacks,%function\ncusim_switch_stacks:\n"
        "sub sp,sp,#176\n"
        "stp x19,x20,[sp]\nstp x21,x22,[sp,#16]\nstp x23,x24,[sp,#32]\n"
        "stp x25,x26,[sp,#48]\nstp x27,x28,[sp,#64]\nstp x29,x30,[sp,#80]\n"
        "stp d8,d9,[sp,#96]\nstp d10,d11,[sp,#112]\n"
        "stp d12,d13,[sp,#128]\nstp d14,d15,[sp,#144]\n"
        "mov x9,sp\nstr x9,[x0]\nmov sp,x1\n"
        "ldp x19,x20,[sp]\nldp x21,x22,[sp,#16]\nldp x23,x24,[sp,#32]\n"
        "ldp x25,x26,[sp,#48]\nldp x27,x28,[sp,#64]\nldp x29,x30,[sp,#80]\n"
        "ldp d8,d9,[sp,#96]\nldp d10,d11,[sp,#112]\n"
        "ldp d12,d13,[sp,#128]\nldp d14,d15,[sp,#144]\n"
        "add sp,sp,#176\nret\n"
        ".size cusim_switch_stacks,.-cusim_switch_stacks\n");
#endif
#endif

/* Lays the stack out as if `main` had just been switched away from at its first instruction. */
static void prepare(fiber *f, void (*main)()) {
#if defined(CUSIM_UCONTEXT)
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = const_cast<char *>(f->bottom);
    f->context.uc_stack.ss_size = f->bytes;
    f->context.uc_link = nullptr;
    makecontext(&f->context, main, 0);
#else
    void **top = reinterpret_cast<void **>(const_cast<char *>(f->bottom) + f->bytes);
#if defined(__x86_64__)
    top[-2] = reinterpret_cast<void *>(main); /* so that the stack is aligned as after a call */
    f->sp = &top[-8];
#else
    top[-11] = reinterpret_cast<void *>(main); /* x30 */
    f->sp = &top[-22];
#endif
#endif
}

/* Stacks of one size would all have their tops in the same few sets of the cache: each begins
 * some lines further than the one before. */
static size_t next_colour() {
    static size_t made;
    return made++ * 5 % 256 * 64;
}

fiber *fiber_make(void (*main)()) {
    size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    size_t colour = next_colour(), all = page + stack_bytes + colour + sizeof(fiber);
    void *memory = mmap(nullptr, all, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return nullptr;
    mprotect(memory, page, PROT_NONE);
    char *bottom = static_cast<char *>(memory) + page;
    fiber *f = new (bottom + stack_bytes + colour) fiber;
    f->bottom = bottom;
    f->bytes = stack_bytes + colour;
    prepare(f, main);
    return f;
}

#if defined(CUSIM_ASAN)
static fiber *left; /* the fiber that the last switch left */

/* The first stack of the process is not made here: the sanitizer tells where it lies. */
static void finish_switch(void *fake_stack) {
    const void *bottom;
    size_t bytes;
    __sanitizer_finish_switch_fiber(fake_stack, &bottom, &bytes);
    if (!left->bottom) {
        left->bottom = static_cast<const char *>(bottom);
        left->bytes = bytes;
    }
}
#endif

void fiber_entered() {
#if defined(CUSIM_ASAN)
    finish_switch(nullptr);
#endif
}

void fiber_switch(fiber *from, fiber *to) {
#if defined(CUSIM_ASAN)
    left = from;
    __sanitizer_start_switch_fiber(&from->fake_stack, to->bottom, to->bytes);
#endif
#if defined(CUSIM_UCONTEXT)
    swapcontext(&from->context, &to->context);
#else
    cusim_switch_stacks(&from->sp, to->sp);
#endif
#if defined(CUSIM_ASAN)
    finish_switch(from->fake_stack);
#endif
}

} // namespace cusim
