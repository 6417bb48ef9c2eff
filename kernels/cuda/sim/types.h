/* CUDA's vector types and their makers, aligned as on a device. */
#ifndef MPT_KERNELS_CUDA_SIM_TYPES_H
#define MPT_KERNELS_CUDA_SIM_TYPES_H

#define CUSIM_VECTORS(base, T, wide2, wide4)                                                   \
    struct base##1 {                                                                           \
        T x;                                                                                   \
    };                                                                                         \
    struct alignas(wide2) base##2 {                                                            \
        T x, y;                                                                                \
    };                                                                                         \
    struct base##3 {                                                                           \
        T x, y, z;                                                                             \
    };                                                                                         \
    struct alignas(wide4) base##4 {                                                            \
        T x, y, z, w;                                                                          \
    };                                                                                         \
    static inline base##2 make_##base##2(T x, T y) {                                           \
        return {x, y};                                                                         \
    }                                                                                          \
    static inline base##3 make_##base##3(T x, T y, T z) {                                      \
        return {x, y, z};                                                                      \
    }                                                                                          \
    static inline base##4 make_##base##4(T x, T y, T z, T w) {                                 \
        return {x, y, z, w};                                                                   \
    }

CUSIM_VECTORS(char, signed char, 2, 4)
CUSIM_VECTORS(uchar, unsigned char, 2, 4)
CUSIM_VECTORS(short, short, 4, 8)
CUSIM_VECTORS(ushort, unsigned short, 4, 8)
CUSIM_VECTORS(int, int, 8, 16)
CUSIM_VECTORS(uint, unsigned, 8, 16)
CUSIM_VECTORS(longlong, long long, 16, 16)
CUSIM_VECTORS(ulonglong, unsigned long long, 16, 16)
CUSIM_VECTORS(float, float, 8, 16)
CUSIM_VECTORS(double, double, 16, 16)
#undef CUSIM_VECTORS

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned nx = 1, unsigned ny = 1, unsigned nz = 1) : x(nx), y(ny), z(nz) {}
};

#endif
