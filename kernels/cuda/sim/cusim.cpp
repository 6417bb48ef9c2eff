/* The scheduler: which thread of a block runs next, and what it does when it has to wait.
 *
 * Fibers take threads from the block's list until none is left. A thread that waits keeps its
 * fiber; another fiber then starts the next thread, or goes on with one that may. So a kernel
 * without barriers takes one fiber and no switch, and one with barriers a switch a wait. */
#include "kernels/cuda/sim/cusim.h"

#include <stdio.h>
#include <stdlib.h>

#include <utility>

#include "kernels/cuda/sim/fiber.h"

namespace cusim {

thread *self;
position now;

namespace {

enum { LANES = 32 };

/* Lanes that meet under one mask. What they bring lies in the slots of this generation: a lane
 * may be at the next meeting while others still read this one's. */
struct meeting {
    unsigned mask, arrived;
    unsigned unread; /* lanes that may go on, and have not yet */
    unsigned generation;
    uint64_t slot[2][32];
};

struct warp {
    meeting met[LANES]; /* each that is not over holds a lane, so there are never more */
    unsigned n;
};

struct {
    std::vector<thread> threads;
    std::vector<warp> warps;
    std::vector<unsigned> order; /* in which threads start */
    size_t started;
    unsigned live;                 /* threads that have not returned */
    std::vector<thread *> waiting; /* at the block's barrier */
    unsigned generation;           /* of the barrier */
    votes cast[2];
    std::vector<thread *> ready; /* from `head` on: may go on */
    size_t head;
    const std::function<void()> *body;
    unsigned char *shared;
    size_t shared_bytes;
} block;

std::vector<fiber *> idle; /* fibers that hold no thread */
fiber main_fiber;
fiber *running = &main_fiber;
uint64_t seed, random_state;
cusim_counts counted;

/* splitmix64, below n. */
unsigned draw(size_t n) {
    uint64_t z = (random_state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return static_cast<unsigned>((z ^ (z >> 31)) % n);
}

void shuffle_order(std::vector<unsigned> &order) {
    for (size_t i = order.size(); i > 1; i--)
        std::swap(order[i - 1], order[draw(i)]);
}

std::vector<unsigned> in_order(size_t n) {
    std::vector<unsigned> order(n);
    for (unsigned i = 0; i < n; i++)
        order[i] = i;
    return order;
}

void switch_to(fiber *to) {
    fiber *from = running;
    if (from == to)
        return;
    counted.switches++;
    running = to;
    fiber_switch(from, to);
}

void say_waiting(const thread &t) {
    fprintf(stderr, "  thread (%u,%u,%u) waits for ", t.index.x, t.index.y, t.index.z);
    if (!t.mask) {
        fprintf(stderr, "its block at %s:%d\n", t.file, t.line);
        return;
    }
    fprintf(stderr, "the lanes %08x of its warp at %s:%d", t.mask, t.file, t.line);
    for (unsigned i = t.linear & ~31u; i < (t.linear | 31u) && i < block.threads.size(); i++)
        if (t.mask >> (i & 31u) & 1u && block.threads[i].exited)
            fprintf(stderr, "; lane %u has returned", i & 31u);
    fprintf(stderr, "\n");
}

/* Nobody can go on. Says for each place who is the first to wait there. */
[[noreturn]] void deadlock() {
    fprintf(stderr, "cusim: kernel %s, block (%u,%u,%u): deadlock, %u of %zu threads wait\n",
            now.kernel, now.block_index.x, now.block_index.y, now.block_index.z, block.live,
            block.threads.size());
    std::vector<const thread *> said;
    for (const thread &t : block.threads) {
        bool known = t.exited;
        for (const thread *other : said)
            known = known || (other->line == t.line && other->mask == t.mask);
        if (known || said.size() >= 8)
            continue;
        said.push_back(&t);
        say_waiting(t);
    }
    abort();
}

/* ---- fibers that run threads ---- */

void work();

fiber *idle_fiber() {
    if (idle.empty()) {
        fiber *f = fiber_make(work);
        if (!f)
            fault("no memory for the stack of a thread");
        return f;
    }
    fiber *f = idle.back();
    idle.pop_back();
    return f;
}

bool start_comes_next() {
    size_t unstarted = block.order.size() - block.started;
    size_t may = block.ready.size() - block.head;
    if (!seed || unstarted == 0 || may == 0)
        return unstarted > 0;
    return draw(2) == 0;
}

thread *take_ready() {
    if (block.head == block.ready.size())
        return nullptr;
    if (seed)
        std::swap(block.ready[block.head],
                  block.ready[block.head + draw(block.ready.size() - block.head)]);
    thread *t = block.ready[block.head++];
    if (block.head == block.ready.size()) {
        block.ready.clear();
        block.head = 0;
    }
    return t;
}

/* The thread that runs has to wait: whoever may, goes on, and in the end it does, too. */
void wait(const char *file, int line, unsigned mask) {
    thread *me = self;
    me->on = running;
    me->file = file;
    me->line = line;
    me->mask = mask;
    if (start_comes_next()) {
        switch_to(idle_fiber());
    } else {
        thread *next = take_ready();
        if (!next)
            deadlock();
        switch_to(next->on);
    }
    self = me;
    me->file = nullptr;
}

void may_go_on(thread *t) {
    block.ready.push_back(t);
}

void open_barrier() {
    for (thread *t : block.waiting)
        may_go_on(t);
    block.waiting.clear();
    block.generation++;
    block.cast[block.generation & 1u] = {0, 0};
}

void run_thread(unsigned linear) {
    self = &block.threads[linear];
    (*block.body)();
    self->exited = true;
    block.live--; /* those that wait do not wait for one that has returned */
    if (!block.waiting.empty() && block.waiting.size() == block.live)
        open_barrier();
}

/* The main function of every fiber. */
void work() {
    fiber_entered();
    for (;;) {
        while (start_comes_next())
            run_thread(block.order[block.started++]);
        thread *next = take_ready();
        if (!next && block.live)
            deadlock();
        idle.push_back(running);
        switch_to(next ? next->on : &main_fiber);
    }
}

/* ---- blocks ---- */

void begin_shape() {
    size_t n = static_cast<size_t>(now.block.x) * now.block.y * now.block.z;
    block.threads.resize(n);
    block.warps.resize((n + 31) / 32);
    block.order = in_order(n);
    for (unsigned i = 0; i < n; i++) {
        thread &t = block.threads[i];
        t.linear = i;
        t.index = {i % now.block.x, i / now.block.x % now.block.y,
                   i / (now.block.x * now.block.y)};
    }
}

void run_block() {
    for (thread &t : block.threads)
        t.exited = false;
    for (warp &w : block.warps)
        w.n = 0;
    block.started = 0;
    block.live = static_cast<unsigned>(block.threads.size());
    block.cast[block.generation & 1u] = {0, 0};
    if (seed)
        shuffle_order(block.order);
    /* Shared memory starts with what the last block left; here with NaN. */
    memset(block.shared, 0xFF, block.shared_bytes);
    switch_to(idle_fiber());
    self = nullptr;
}

/* Exactly as long as asked for, so that the sanitizer sees the first byte beyond. */
void take_shared(size_t bytes) {
    if (block.shared && block.shared_bytes == bytes)
        return;
    void *memory = nullptr;
    free(block.shared);
    if (posix_memalign(&memory, 128, bytes ? bytes : 1))
        fault("no memory for %zu bytes of shared memory", bytes);
    block.shared = static_cast<unsigned char *>(memory);
    block.shared_bytes = bytes;
}

bool same(const dim3 &a, const dim3 &b) {
    return a.x == b.x && a.y == b.y && a.z == b.z;
}

} // namespace

void run(const launch_record &r) {
    if (!r.block.x || !r.block.y || !r.block.z) {
        r.body();
        return;
    }
    bool new_shape = block.threads.empty() || !same(now.block, r.block);
    now = {r.kernel, r.grid, r.block, {0, 0, 0}};
    check_launch(r);
    if (new_shape)
        begin_shape();
    take_shared(r.shared);
    block.body = &r.body;
    uint64_t n = static_cast<uint64_t>(r.grid.x) * r.grid.y * r.grid.z;
    random_state = seed;
    std::vector<unsigned> order = in_order(seed ? n : 0);
    shuffle_order(order);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t b = seed ? order[i] : i;
        now.block_index = {static_cast<unsigned>(b % r.grid.x),
                           static_cast<unsigned>(b / r.grid.x % r.grid.y),
                           static_cast<unsigned>(b / r.grid.x / r.grid.y)};
        run_block();
    }
    counted.launches++;
    counted.threads += n * block.threads.size();
}

void launch(launch_record record, void *on) {
    stream *s = static_cast<stream *>(on);
    if (s && s->recording)
        s->recording->push_back(std::move(record));
    else
        run(record);
}

void launch_host(void *on, std::function<void()> body) {
    launch({"host", nullptr, 1, dim3(0, 0, 0), 0, std::move(body)}, on);
}

void *dynamic_shared() {
    return block.shared;
}

/* ---- meetings ---- */

static void check_same_place(const thread *other, const char *file, int line) {
    if (other->line != line || strcmp(other->file, file) != 0)
        fault("divergent barrier: this thread is at %s:%d, thread (%u,%u,%u) waits at %s:%d",
              file, line, other->index.x, other->index.y, other->index.z, other->file,
              other->line);
}

votes meet_block(bool vote, const char *file, int line) {
    if (!block.waiting.empty())
        check_same_place(block.waiting[0], file, line);
    votes &cast = block.cast[block.generation & 1u];
    cast.yes += vote;
    cast.all++;
    if (cast.all == block.live) {
        open_barrier();
        return cast;
    }
    block.waiting.push_back(self);
    wait(file, line, 0);
    return cast;
}

static meeting *meeting_of(warp &w, unsigned mask) {
    meeting *over = nullptr;
    for (unsigned i = 0; i < w.n; i++) {
        if (w.met[i].mask == mask)
            return &w.met[i];
        if (!w.met[i].arrived && !w.met[i].unread)
            over = &w.met[i];
    }
    meeting *m = w.n < LANES ? &w.met[w.n++] : over;
    m->mask = mask;
    m->arrived = m->unread = 0;
    return m;
}

static void check_lanes(unsigned mask, unsigned lane) {
    if (!(mask >> lane & 1u))
        fault("lane %u is not in its mask %08x", lane, mask);
    size_t lanes = block.threads.size() - (self->linear & ~31u);
    if (lanes < 32 && mask >> lanes)
        fault("the mask %08x names lanes that its warp of %zu threads lacks", mask, lanes);
}

const uint64_t *meet_warp(unsigned mask, uint64_t value, const char *file, int line) {
    unsigned lane = self->linear & 31u, first = self->linear & ~31u;
    check_lanes(mask, lane);
    meeting *m = meeting_of(block.warps[self->linear / 32], mask);
    if (m->arrived)
        check_same_place(
            &block.threads[first + static_cast<unsigned>(__builtin_ctz(m->arrived))], file,
            line);
    uint64_t *slots = m->slot[m->generation & 1u];
    slots[lane] = value;
    m->arrived |= 1u << lane;
    if (m->arrived != mask) {
        wait(file, line, mask);
        m->unread &= ~(1u << lane);
        return slots;
    }
    m->arrived = 0;
    m->unread |= mask & ~(1u << lane);
    for (unsigned i = 0; i < LANES; i++)
        if (m->unread >> i & 1u)
            may_go_on(&block.threads[first + i]);
    m->generation++;
    return slots;
}

} // namespace cusim

void cusim_shuffle(uint64_t seed) {
    ::cusim::seed = seed;
}

cusim_counts cusim_counted(void) {
    return ::cusim::counted;
}
