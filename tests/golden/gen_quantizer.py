"""The quantizer, written a second time, from the contract alone and for reading, not for speed.

quantize() takes rows of float32 values in the quantized orientation (the transpose for a column
copy) and a dict of settings, and returns codes, scales, amax, decoded and dequantized values.
"""
import math
from fractions import Fraction
from gen_numbers import (FORMATS, FLT_MAX, INF, NAN, add, bf16, bits_of, div, fl, halves, mul,
                         philox)

FIXED_SIGNS = 0xD7E8
DEFAULTS = dict(format="e4m3", block=(0, 0), scale="current", scale_format="fp32", rule="nearest",
                error="mae", bound=448, outer="none", headroom=1.0, rounding="nearest", size=0,
                signs="none", nonfinite="propagate", bf16=0, fp16=0, seed=0, operand=0, step=0,
                micro_batch=0, encode=0.0, sign_seed=0, sign_scope=0, sign_step=0)


# ---- the rotation ----

def sign_mask(q):
    if q["signs"] == "fixed":
        return sum(FIXED_SIGNS << 16 * i for i in range(8))
    if q["signs"] == "none":
        return 0
    words = philox([0x48616461, 0xFFFFFFFF, q["sign_scope"], q["sign_step"]],
                   halves(q["sign_seed"]))
    return sum(w << 32 * i for i, w in enumerate(words))


def rotate(v, mask, to_bf16):
    n = len(v)
    v = [-a if mask >> i & 1 else a for i, a in enumerate(v)]
    h = 1
    while h < n:
        for i in range(n):
            if not i & h:
                v[i], v[i + h] = add(v[i], v[i + h]), add(v[i], -v[i + h])
        h *= 2
    # fl(1/sqrt(n)): the square root by integers, far beyond float32.
    factor = fl(Fraction(math.isqrt((1 << 160) // n), 1 << 80))
    v = [mul(a, factor) for a in v]
    return [bf16(a) for a in v] if to_bf16 else v


def rotated(rows, q):
    n = q["size"]
    if not n:
        return rows
    mask, out = sign_mask(q), []
    for row in rows:
        row = row + [0.0] * (-len(row) % n)
        out.append([a for k in range(0, len(row), n)
                    for a in rotate(row[k:k + n], mask, q["bf16"])])
    return out


# ---- amax ----

def largest(values, q, visible):
    """The amax: `visible` makes it NaN where a value is not finite and the policy propagates."""
    if q["nonfinite"] == "propagate":
        if visible and not all(math.isfinite(v) for v in values):
            return NAN
        return max((abs(v) for v in values if math.isfinite(v)), default=0.0)
    return max((abs(v) for v in values if not math.isnan(v)), default=0.0)


# ---- scales: each gives (stored, encode, value of the scale for decoding) ----

def fp32_scale(q, m, amax, cap):
    if math.isnan(amax):
        return NAN, NAN, NAN
    encode = 1.0
    if amax != 0 and amax != INF:
        encode = div(m, amax)
        encode = cap if encode == INF else encode
    return stored_scale(q, encode)


def stored_scale(q, encode):
    encode = max(encode, 2.0 ** -128 + 2.0 ** -149)  # the least with a finite reciprocal
    if q["scale_format"] == "pow2":
        # The power of two at or below; under 2^-127 no reciprocal is finite.
        encode = 2.0 ** max(math.frexp(encode)[1] - 1, -127)
    decode = div(1.0, encode)
    return decode, encode, decode


def e8m0_scale(q, f, m, amax):
    if math.isnan(amax):
        return 255, NAN, NAN
    code = 0
    if amax != 0 and q["rule"] == "up":
        v = mul(amax, div(1.0, m))
        while code < 254 and Fraction(2) ** (code - 127) < (Fraction(v) if v < INF else v):
            code += 1
    elif amax != 0:
        if amax < INF and q["headroom"] != 1:
            amax = fl(Fraction(amax) / Fraction(q["headroom"]))
        if amax == INF:
            log = 128  # what its exponent bits say
        elif q["rule"] == "floor":
            log = math.frexp(amax)[1] - 1
        elif q["rule"] == "ceil":
            mantissa, e = math.frexp(amax)
            log = e - 1 if mantissa == 0.5 else e
        else:
            log = ((bits_of(amax) + (1 << (22 - f.mantissa))) >> 23) - 127
        code = min(max(log - f.emax, -127), 127) + 127
    return code, 2.0 ** (127 - code), 2.0 ** (code - 127)


class Outer:
    """The second level: S_enc, S_dec, and the amax that decoding multiplies by."""

    def __init__(self, q, m, amax):
        bound = q["bound"] if q["rule"] == "four_over_six" else 448
        self.product, self.amax = fl(Fraction(bound) * Fraction(m)), amax
        self.enc = 1.0
        if q["outer"] != "none" and amax != 0:
            self.enc = min(div(self.product, amax), FLT_MAX)
            self.enc = 1.0 if self.enc == 0 else self.enc
        self.dec = div(1.0, self.enc)
        self.multiplier = mul(self.enc, div(1.0, m))


def e4m3_scale(base):
    return 0x7F if math.isnan(base) else FORMATS["e4m3"].encode(min(base, FLT_MAX))


def under_outer(code, outer):
    s8 = FORMATS["e4m3"].decode(code)
    return code, min(div(1.0, mul(s8, outer.dec)), FLT_MAX) if code != 0x7F else NAN, s8


def four_over_six(q, f, values, amax, outer):
    """The better of two scales: the largest element becomes 6, or 4. `values` is rows."""
    if math.isnan(amax):
        return under_outer(0x7F, outer)
    base = mul(div(amax, 6.0), outer.enc)
    six, four = e4m3_scale(base), e4m3_scale(mul(base, 1.5))

    def error(code):
        _, encode, s8 = under_outer(code, outer)
        sums = []
        for row in values:
            total = 0.0
            for x in row:
                y = mul(mul(f.decode(f.encode(mul(x, encode))), s8), outer.amax)
                d = add(div(y, fl(Fraction(6 * q["bound"]))), -x)
                total = add(total, abs(d) if q["error"] == "mae" else mul(d, d))
            sums.append(total)
        sums += [0.0] * (q["block"][0] - len(sums))
        while len(sums) > 1:  # rows as a tree: the second half is added to the first
            half = len(sums) // 2
            sums = [add(a, b) for a, b in zip(sums[:half], sums[half:])]
        return sums[0]

    return under_outer(four if error(four) < error(six) else six, outer)


# ---- the whole ----

def random_bits(q, f, rows, cols):
    """16 bits an element; FP4 and FP6 have the upper eight only."""
    a_row = (cols + 15) // 16
    key, out = halves(q["seed"]), []
    for r in range(rows):
        line = []
        for g in range(a_row):
            group = halves(r * a_row + g + q["micro_batch"] * rows * a_row)
            calls = [philox(group + [q["operand"] | low, q["step"]], key) for low in (0, 1 << 31)]
            high, low = ([w >> 8 * i & 255 for w in words for i in range(4)] for words in calls)
            line += [h << 8 | (0 if f.one_byte else b) for h, b in zip(high, low)]
        out.append(line[:cols])
    return out


def scale_of(q, f, m, area, outer):
    flat = [x for row in area for x in row]
    if q["scale_format"] in ("fp32", "pow2"):
        cap = FLT_MAX
        if q["block"] != (0, 0):
            cap = float.fromhex("0x1.fep127") if q["bf16"] else 65504.0 if q["fp16"] else FLT_MAX
        if q["block"] == (0, 0) and f.nan is not None:
            amax = largest(flat, q, False)
        else:
            amax = largest(flat, q, True)
        if q["scale"] != "current" and not math.isnan(amax) and q["encode"] != 0:
            return stored_scale(q, q["encode"])
        return fp32_scale(q, m, amax, cap)
    amax = largest(flat, q, True)
    if q["scale_format"] == "e8m0":
        return e8m0_scale(q, f, m, amax)
    if q["rule"] == "four_over_six":
        return four_over_six(q, f, area, amax, outer)
    return under_outer(e4m3_scale(mul(amax, outer.multiplier)), outer)


def dequantized_value(q, value, scale, outer):
    if q["scale_format"] == "e4m3" and q["outer"] != "none":
        return mul(value, mul(mul(scale, outer.amax), div(1.0, outer.product)))
    return mul(value, scale)


def quantize(rows, settings):
    q = {**DEFAULTS, **settings}
    f, x = FORMATS[q["format"]], rotated(rows, q)
    q["headroom"] = fl(Fraction(q["headroom"]))  # a setting is a float32 number
    m = mul(f.max, q["headroom"])
    n, k = len(x), len(x[0])
    br, bk = q["block"][0] or n, q["block"][1] or k
    one_scale = q["block"] == (0, 0) and q["scale_format"] in ("fp32", "pow2")
    whole = [v for row in x for v in row]
    amaxes = [largest(row, q, False) for row in x] if q["outer"] == "row" else \
        [largest(whole, q, one_scale and f.nan is None)]
    bits = random_bits(q, f, n, k) if q["rounding"] == "stochastic" else None
    out = dict(codes=[[0] * k for _ in x], scales=[], amax=amaxes, bits=f.bits,
               decoded=[[0.0] * k for _ in x], dequantized=[[0.0] * k for _ in x])
    for r0 in range(0, n, br):
        outer = Outer(q, m, amaxes[r0 if q["outer"] == "row" else 0])
        for k0 in range(0, k, bk):
            area = [row[k0:k0 + bk] for row in x[r0:r0 + br]]
            stored, encode, scale = scale_of(q, f, m, area, outer)
            out["scales"].append(stored)
            for r in range(r0, min(r0 + br, n)):
                for c in range(k0, min(k0 + bk, k)):
                    v = x[r][c]
                    code = f.encode(mul(v, encode), q["rounding"], bits[r][c] if bits else 0)
                    if one_scale and q["nonfinite"] == "propagate" and not math.isfinite(v) \
                            and f.nan is not None:
                        visible = f.inf is not None and not math.isnan(v)
                        code = f.signed(f.inf, v < 0) if visible else f.nan
                    value = f.decode(code)
                    out["codes"][r][c] = code
                    out["decoded"][r][c] = value if one_scale else mul(value, scale)
                    out["dequantized"][r][c] = dequantized_value(q, value, scale, outer)
    return out
