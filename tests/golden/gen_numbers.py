"""Exact numbers for gen_oracle.py: float32 steps, formats as tables, Philox.

Pure Python 3, no packages. Nothing here follows the C sources: a float32 operation is an exact
rational rounded once, a format is the sorted list of all its values, and a cast searches that
list. The facts come from IEEE 754, the OCP Microscaling specification 1.0, DeepSeek-V3 (E5M6)
and the paper of Random123 (Salmon et al., SC 2011).
"""
import bisect
import math
import struct
from fractions import Fraction

NAN, INF = math.nan, math.inf
FLT_MAX = float.fromhex("0x1.fffffep127")


# ---- float32 ----

def round_to(q, digits, emin, largest):
    """The rational q to nearest even with `digits` bits of significand; beyond largest is Inf."""
    if q == 0:
        return 0.0
    a = abs(q)
    e = a.numerator.bit_length() - a.denominator.bit_length()
    if Fraction(2) ** e > a:
        e -= 1
    step = Fraction(2) ** (max(e, emin) - digits + 1)
    value = round(a / step) * step  # of Fraction: half to even, exact
    value = INF if value > largest else float(value)
    return math.copysign(value, q)


def fl(q):
    return round_to(q, 24, -126, Fraction(FLT_MAX))


def bf16(x):
    if not math.isfinite(x) or x == 0:
        return x
    return round_to(Fraction(x), 8, -126, Fraction(float.fromhex("0x1.fep127")))


def plain(*values):
    return all(math.isfinite(v) and v != 0 for v in values)


def mul(a, b):
    """The product of two float32 values has 48 bits, which a Python float holds exactly; struct
    rounds it once. Zero, Inf and NaN follow IEEE 754 in both."""
    try:
        return struct.unpack("<f", struct.pack("<f", a * b))[0]
    except OverflowError:
        return math.copysign(INF, a) * math.copysign(1, b)


def add(a, b):
    return (fl(Fraction(a) + Fraction(b)) if a != -b else 0.0) if plain(a, b) else a + b


def div(a, b):
    if plain(a, b):
        return fl(Fraction(a) / Fraction(b))
    if b == 0:
        return NAN if a == 0 or math.isnan(a) else math.copysign(INF, a) * math.copysign(1, b)
    return a / b


def bits_of(x):
    if math.isnan(x):
        return 0x7FC00000
    return struct.unpack("<I", struct.pack("<f", x))[0]


def from_bits(u):
    return struct.unpack("<f", struct.pack("<I", u & 0xFFFFFFFF))[0]


# ---- formats ----

class Format:
    """All magnitudes in order: the index is the code without its sign."""

    def __init__(self, name, bits, exponent, mantissa, bias, largest, nan, inf, one_byte):
        self.name, self.bits, self.mantissa = name, bits, mantissa
        self.nan, self.inf = nan, inf  # codes, or None
        self.one_byte = one_byte  # random bits that an element takes: 8, or 16
        self.values = []
        for code in range(1 << (exponent + mantissa)):
            e, m = code >> mantissa, Fraction(code % (1 << mantissa), 1 << mantissa)
            v = m * Fraction(2) ** (1 - bias) if e == 0 else (1 + m) * Fraction(2) ** (e - bias)
            if v <= largest:
                self.values.append(float(v))
        self.max = self.values[-1]
        assert self.max == largest and sorted(self.values) == self.values
        self.emax = math.frexp(self.max)[1] - 1

    def signed(self, code, negative):
        return code | (1 << (self.bits - 1)) if negative else code

    def decode(self, code):
        negative, code = code >> (self.bits - 1) & 1, code & ((1 << (self.bits - 1)) - 1)
        if code >= len(self.values):
            v = INF if code == self.inf else NAN
        else:
            v = self.values[code]
        return -v if negative else v

    def step_at(self, a):
        """The distance of the two codes around a."""
        i = max(bisect.bisect_right(self.values, a) - 1, 0)
        i = min(i, len(self.values) - 2)
        return Fraction(self.values[i + 1]) - Fraction(self.values[i])

    def magnitude(self, a, mode):
        """The index for the finite magnitude a: by its two neighbours in the table."""
        i = bisect.bisect_right(self.values, a) - 1
        if i == len(self.values) - 1 or self.values[i] == a or mode == "toward_zero":
            return i
        below = Fraction(a) - Fraction(self.values[i])
        above = Fraction(self.values[i + 1]) - Fraction(a)
        if below == above:
            return i + 1 if mode == "half_away" else i + i % 2
        return i if below < above else i + 1

    def drawn(self, a, bits16):
        """Stochastic rounding of the magnitude a by 16 random bits, or by their upper byte."""
        step = self.step_at(a)
        if self.one_byte:  # one float32 addition, as the contract writes it
            t = Fraction(fl(Fraction(a) + Fraction(bits16 >> 8, 256) * step))
        else:
            t = Fraction(a) + Fraction(bits16, 65536) * step
        reached = float(t // step * step)
        if reached >= self.max:
            return len(self.values) - 1
        i = bisect.bisect_left(self.values, reached)
        assert self.values[i] == reached
        return i

    def encode(self, x, mode="nearest", bits16=0):
        if math.isnan(x):
            return len(self.values) - 1 if self.nan is None else self.nan
        a = min(abs(x), self.max)
        code = self.drawn(a, bits16) if mode == "stochastic" else self.magnitude(a, mode)
        return self.signed(code, math.copysign(1, x) < 0)


class Int8(Format):
    """k/64 in two's complement: one zero, and -128 is never made."""

    def signed(self, code, negative):
        return -code & 255 if negative else code

    def decode(self, code):
        return (code - 256 if code > 127 else code) / 64


FORMATS = {f.name: f for f in [
    Format("e4m3", 8, 4, 3, 7, 448, 0x7F, None, False),
    Format("e5m2", 8, 5, 2, 15, 57344, 0x7F, 0x7C, False),
    Format("e5m6", 12, 5, 6, 15, 65024, 0x7FF, 0x7C0, False),
    Format("e3m2", 6, 3, 2, 3, 28, None, None, True),
    Format("e2m3", 6, 2, 3, 1, 7.5, None, None, True),
    Format("e2m1", 4, 2, 1, 1, 6, None, None, True),
    Int8("int8", 8, 1, 6, 1, 127 / 64, None, None, False)]}


# ---- random bits ----

def philox(counter, key):
    """Philox4x32-10: ten rounds of two 32 x 32 products; the key moves by two Weyl constants."""
    c, k = list(counter), list(key)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [p1 >> 32 ^ c[1] ^ k[0], p1 & 0xFFFFFFFF, p0 >> 32 ^ c[3] ^ k[1], p0 & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def halves(u):
    return [u & 0xFFFFFFFF, u >> 32 & 0xFFFFFFFF]


# The known answers that Random123 publishes for this generator.
assert philox([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
assert philox([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6,
                                                      0x6D5451FD]
