/* The byte words that both x86 levels share: they need no more than 128 bits.
 *
 * Included by lanes_avx2.h and lanes_avx512.h, which have defined LANE. */
#ifndef MPT_KERNELS_CPU_LANES_BYTES_H
#define MPT_KERNELS_CPU_LANES_BYTES_H

/* Sixteen bytes of a times one plus those of b times sixteen: two rows of codes become one. */
LANE void v_merge_nibbles(uint8_t *p, const uint8_t *low, const uint8_t *high) {
    __m128i a = _mm_loadu_si128((const __m128i *)(const void *)low);
    __m128i b = _mm_loadu_si128((const __m128i *)(const void *)high);
    _mm_storeu_si128((__m128i *)(void *)p, _mm_or_si128(a, _mm_slli_epi16(b, 4)));
}

/* Sixteen codes of two bytes from their low and their high ones. */
LANE void v_zip_bytes(uint8_t *p, const uint8_t *low, const uint8_t *high) {
    __m128i a = _mm_loadu_si128((const __m128i *)(const void *)low);
    __m128i b = _mm_loadu_si128((const __m128i *)(const void *)high);
    _mm_storeu_si128((__m128i *)(void *)p, _mm_unpacklo_epi8(a, b));
    _mm_storeu_si128((__m128i *)(void *)(p + 16), _mm_unpackhi_epi8(a, b));
}

/* A square of 16x16 bytes, rows become columns. */
LANE void v_transpose_bytes(uint8_t *to, int64_t to_ld, const uint8_t *from, int64_t from_ld) {
    __m128i a[16], b[16];
    for (int i = 0; i < 16; i++)
        a[i] = _mm_loadu_si128((const __m128i *)(const void *)(from + i * from_ld));
    for (int stage = 0; stage < 4; stage++) {
        for (int i = 0; i < 8; i++) {
            b[2 * i] = _mm_unpacklo_epi8(a[i], a[i + 8]);
            b[2 * i + 1] = _mm_unpackhi_epi8(a[i], a[i + 8]);
        }
        for (int i = 0; i < 16; i++)
            a[i] = b[i];
    }
    for (int i = 0; i < 16; i++)
        _mm_storeu_si128((__m128i *)(void *)(to + i * to_ld), a[i]);
}

#endif
