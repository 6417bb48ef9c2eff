/* cusim runtime.  Compile WITHOUT -fsanitize=thread (pass -DCUSIM_TSAN instead) so that only
 * kernel code is race-checked; with ASan either way works (pass -DCUSIM_ASAN or
 * -fsanitize=address). */
#include "kernels/cuda/sim/cusim.h"
#include <atomic>
#include <thread>
#include <sys/mman.h>
#if defined(CUSIM_ASAN)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(CUSIM_TSAN)
#include <sanitizer/tsan_interface.h>
#endif
namespace cusim {
thread_local Fiber *cur = nullptr;
uint64_t total_switches = 0;
Block::~Block() {
    if (stacks)
        munmap(stacks, stack_sz * nstacks);
}
#if !defined(CUSIM_UCTX)
extern "C" void cusim_switch(void **save_sp, void *load_sp);
#if defined(__x86_64__)
__asm__(".text\n.weak cusim_switch\n.type cusim_switch,@function\ncusim_switch:\n"
        "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
        "movq %rsp,(%rdi)\nmovq %rsi,%rsp\n"
        "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n"
        ".size cusim_switch,.-cusim_switch\n");
#else
__asm__(".text\n.weak cusim_switch\n.type cusim_switch,%function\ncusim_switch:\n"
        "sub sp,sp,#176\nstp x19,x20,[sp]\nstp x21,x22,[sp,#16]\nstp x23,x24,[sp,#32]\nstp "
        "x25,x26,[sp,#48]\n"
        "stp x27,x28,[sp,#64]\nstp x29,x30,[sp,#80]\nstp d8,d9,[sp,#96]\nstp "
        "d10,d11,[sp,#112]\nstp d12,d13,[sp,#128]\nstp d14,d15,[sp,#144]\n"
        "mov x9,sp\nstr x9,[x0]\nmov sp,x1\n"
        "ldp x19,x20,[sp]\nldp x21,x22,[sp,#16]\nldp x23,x24,[sp,#32]\nldp "
        "x25,x26,[sp,#48]\nldp x27,x28,[sp,#64]\nldp x29,x30,[sp,#80]\n"
        "ldp d8,d9,[sp,#96]\nldp d10,d11,[sp,#112]\nldp d12,d13,[sp,#128]\nldp "
        "d14,d15,[sp,#144]\nadd sp,sp,#176\nret\n");
#endif
#endif

[[noreturn]] static void die(const char *why) {
    std::fprintf(stderr, "cusim: %s: block (%u,%u,%u) thread (%u,%u,%u)\n", why,
                 cur->blk->bid.x, cur->blk->bid.y, cur->blk->bid.z, cur->tid.x, cur->tid.y,
                 cur->tid.z);
    std::abort();
}
static void jump(Fiber *from, Fiber *to, bool from_dies = false) {
    from->blk->switches++;
    cur = to;
#if defined(CUSIM_ASAN)
    bool tm = (to == &to->blk->main_f);
    const void *bot = tm ? nullptr : to->blk->stacks + to->lin * to->blk->stack_sz;
    static thread_local const void *main_bot;
    static thread_local size_t main_sz;
    __sanitizer_start_switch_fiber(from_dies ? nullptr : &from->fake, tm ? main_bot : bot,
                                   tm ? main_sz : to->blk->stack_sz);
#endif
    (void)from_dies;
#if defined(CUSIM_TSAN)
    __tsan_switch_to_fiber(to->tsan, __tsan_switch_to_fiber_no_sync);
#endif
#if defined(CUSIM_UCTX)
    swapcontext(&from->uc, &to->uc);
#else
    cusim_switch(&from->sp, to->sp);
#endif
#if defined(CUSIM_ASAN)
    const void *ob;
    size_t os;
    __sanitizer_finish_switch_fiber(from->fake, &ob, &os);
    if (from != &from->blk->main_f && !main_bot) {
        main_bot = ob;
        main_sz = os;
    }
#endif
}
static Fiber *ring_next(Fiber *f) {
    Block *b = f->blk;
    unsigned i = f->lin;
    for (unsigned k = 0; k < b->n; k++) {
        i = b->next[i];
        if (!b->f[i].done)
            return &b->f[i];
    }
    return nullptr;
}
static Fiber *lane_next(Fiber *f, unsigned mask) {
    Block *b = f->blk;
    unsigned base = f->lin & ~31u, l = f->lin & 31u;
    for (unsigned k = 1; k <= 32; k++) {
        unsigned j = (l + k) & 31u;
        if ((mask >> j) & 1u)
            if (base + j < b->n && !b->f[base + j].done)
                return &b->f[base + j];
    }
    return nullptr;
}
static void hb_release(void *p) {
#if defined(CUSIM_TSAN)
    __tsan_release(p);
#endif
    (void)p;
}
static void hb_acquire(void *p) {
#if defined(CUSIM_TSAN)
    __tsan_acquire(p);
#endif
    (void)p;
}
static void check_release_block(Block *b) {
    if (b->live && b->bar_arrived == b->live) {
        b->bar_arrived = 0;
        b->bar_gen++;
    }
}
void syncthreads() {
    Fiber *me = cur;
    Block *b = me->blk;
    uint64_t g = b->bar_gen, spins = 0;
    hb_release(&b->bar_gen);
    b->bar_arrived++;
    check_release_block(b);
    while (b->bar_gen == g) {
        Fiber *nx = ring_next(me);
        if (nx == me || ++spins > 4096u)
            die("__syncthreads deadlock / divergent barrier");
        jump(me, nx);
    }
    hb_acquire(&b->bar_gen);
}
static WarpRec *warp_rec(Fiber *me, unsigned mask) {
    if (!((mask >> (me->lin & 31u)) & 1u))
        die("calling lane not in *_sync mask");
    Warp &w = me->blk->w[me->lin >> 5];
    for (auto &r : w.rec) {
        if (r.mask == mask)
            return &r;
        if (!r.mask) {
            r.mask = mask;
            return &r;
        }
    }
    die("too many distinct warp masks");
}
uint64_t warp_xchg(unsigned mask, uint64_t v, unsigned src_lane, bool barrier) {
    Fiber *me = cur;
    WarpRec *r = warp_rec(me, mask);
    unsigned l = me->lin & 31u;
    uint64_t g = r->gen;
    unsigned par = g & 1u, spins = 0;
    r->slot[par][l] = v;
    if (barrier)
        hb_release(&r->gen);
    r->arrived |= 1u << l;
    if (r->arrived == mask) {
        r->arrived = 0;
        r->gen++;
    }
    while (r->gen == g) {
        Fiber *nx = lane_next(me, mask);
        if (!nx || nx == me || ++spins > 4096u)
            die("warp *_sync deadlock: a lane named in mask never arrives");
        jump(me, nx);
    }
    if (barrier)
        hb_acquire(&r->gen);
    return r->slot[par][((mask >> (src_lane & 31u)) & 1u) ? (src_lane & 31u) : l];
}
static void fiber_main() {
    Fiber *me = cur;
    Block *b = me->blk;
#if defined(CUSIM_ASAN)
    __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
    hb_acquire(&b->start); /* blocks are ordered: they reuse one static shared buffer */
    (*b->body)();
    hb_release(&b->live);
    me->done = true;
    b->live--;
    check_release_block(b);
    Fiber *nx = ring_next(me);
    jump(me, nx ? nx : &b->main_f, true);
    std::abort();
}
static void run_block(Block &b) {
    b.live = b.n;
    b.bar_arrived = 0;
    for (auto &w : b.w)
        for (auto &r : w.rec) {
            r.mask = 0;
            r.arrived = 0;
        }
    for (unsigned i = 0; i < b.n; i++) {
        Fiber &f = b.f[i];
        f.done = false;
        f.blk = &b;
        f.lin = i;
        f.tid = {i % b.bdim.x, i / b.bdim.x % b.bdim.y, i / (b.bdim.x * b.bdim.y)};
        char *top = b.stacks + (i + 1) * b.stack_sz;
#if defined(CUSIM_UCTX)
        getcontext(&f.uc);
        f.uc.uc_stack.ss_sp = b.stacks + i * b.stack_sz;
        f.uc.uc_stack.ss_size = b.stack_sz;
        f.uc.uc_link = nullptr;
        makecontext(&f.uc, (void (*)())fiber_main, 0);
        (void)top;
#elif defined(__x86_64__)
        void **s = (void **)top;
        s[-2] = (void *)fiber_main;
        f.sp = &s[-8]; /* 6 regs + ret; rsp%16==8 at entry */
#else
        void **s = (void **)(top - 176);
        std::memset(s, 0, 176);
        s[11] = (void *)fiber_main;
        f.sp = s;
#endif
#if defined(CUSIM_TSAN)
        if (f.tsan)
            __tsan_destroy_fiber(f.tsan);
        f.tsan = __tsan_create_fiber(0);
#endif
    }
    b.main_f.blk = &b;
#if defined(CUSIM_TSAN)
    b.main_f.tsan = __tsan_get_current_fiber();
#endif
    cur = &b.main_f;
    hb_release(&b.start);
    jump(&b.main_f, &b.f[b.start]);
    hb_acquire(&b.live);
    cur = nullptr;
}
void launch(dim3 g, dim3 bd, size_t shmem, void *stream, const std::function<void()> &body) {
    (void)stream;
    const char *e = std::getenv("CUSIM_THREADS");
    int nt = e ? std::atoi(e) : 1;
    const char *sd = std::getenv("CUSIM_SEED");
    uint64_t seed = sd ? std::strtoull(sd, 0, 0) : 0;
#if defined(CUSIM_ASAN) || defined(CUSIM_TSAN)
    nt = 1;
#endif
    uint64_t nb = (uint64_t)g.x * g.y * g.z;
    std::atomic<uint64_t> nextb{0};
    auto worker = [&] {
        Block b;
        b.gdim = g;
        b.bdim = bd;
        b.n = bd.x * bd.y * bd.z;
        b.f.resize(b.n);
        b.w.resize((b.n + 31) / 32);
        b.next.resize(b.n);
        std::vector<unsigned> ord(b.n);
        for (unsigned i = 0; i < b.n; i++)
            ord[i] = i;
        if (seed) {
            uint64_t s = seed;
            for (unsigned i = b.n - 1; i > 0; i--) {
                s = s * 6364136223846793005ull + 1442695040888963407ull;
                std::swap(ord[i], ord[(s >> 33) % (i + 1)]);
            }
        }
        for (unsigned i = 0; i < b.n; i++)
            b.next[ord[i]] = ord[(i + 1) % b.n];
        b.start = ord[0];
        b.body = &body;
        b.stack_sz = 65536;
        b.nstacks = b.n;
        b.stacks = (char *)mmap(nullptr, b.stack_sz * b.n, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        b.dyn.reset(new unsigned char[shmem + 16]);
        b.dynsz = shmem;
        for (uint64_t k; (k = nextb++) < nb;) {
            uint64_t j = seed ? nb - 1 - k : k; /* seeded: blocks in reverse */
            b.bid = {(unsigned)(j % g.x), (unsigned)(j / g.x % g.y),
                     (unsigned)(j / ((uint64_t)g.x * g.y))};
            run_block(b);
        }
        __atomic_fetch_add(&total_switches, b.switches, __ATOMIC_RELAXED);
#if defined(CUSIM_TSAN)
        for (auto &f : b.f)
            if (f.tsan) {
                __tsan_destroy_fiber(f.tsan);
                f.tsan = nullptr;
            }
#endif
    };
    if (nt <= 1)
        worker();
    else {
        std::vector<std::thread> t;
        for (int i = 0; i < nt; i++)
            t.emplace_back(worker);
        for (auto &x : t)
            x.join();
    }
}
} // namespace cusim
