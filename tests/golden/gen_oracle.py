"""Writes oracle.safetensors: what every quantizer makes of a few awkward matrices.

    python3 tests/golden/gen_oracle.py [OUT]

The numbers come from gen_quantizer.py, never from the library. Each family of cases has two
tensors: `FAMILY/cases`, a text of one line a case with the settings that differ from the defaults,
and `FAMILY/bytes`, its codes, scales and amax one after the other, as the library lays them out, and
two hashes of 8 bytes, of the decoded and of the dequantized values. Inputs are `NAME/x`.
"""
import json
import math
import os
import random
import struct
import sys
from gen_numbers import FLT_MAX, FORMATS, bf16, bits_of, fl, from_bits
from gen_quantizer import DEFAULTS, quantize
from fractions import Fraction

SHAPES = {"flat": (5, 37), "long": (3, 129), "one": (1, 1), "tall": (17, 70), "odd": (33, 50)}
KINDS = ("tame", "wide", "tiny", "bad")
NARROW = list(FORMATS)
MX = ["e4m3", "e5m2", "e3m2", "e2m3", "e2m1", "int8"]


# ---- inputs ----

def tame(rng, r, c):
    """Dyadic numbers, many of them midpoints, under a largest element that makes scales exact;
    on every other row any numbers."""
    if r % 2:
        return fl(Fraction(rng.gauss(0, 1)))
    top = (6.0, 448.0, 28.0, 7.5, 57344.0, 127 / 64, 65024.0, 3.0)[(r // 2 + c // 16) % 8]
    if c % 16 == 3:
        return top if rng.random() < 0.5 else -top
    return rng.randint(-96, 96) * 2.0 ** -rng.randint(0, 10) * (top / 96 if top in (6, 3) else 1)


def wide(rng, r, c, low=(-149, -127, -126, -60, -9, 0, 50, 119, 127)):
    e = low[(r * 5 + c // 16 * 7 + rng.randint(0, 1)) % len(low)]
    if (r + c // 16) % 6 == 5:
        return -0.0 if rng.random() < 0.5 else 0.0
    digits = min(23, e + 149)
    mantissa = rng.getrandbits(digits) if digits else 0
    value = (2 ** digits + mantissa) * 2.0 ** (e - digits)
    return -value if rng.random() < 0.5 else value


def tiny(rng, r, c):
    return wide(rng, r, c, (-149, -148, -140, -135, -130, -127, -126, -125, -121))


def bad(rng, r, c):
    kind = rng.randint(0, 40)
    specials = [math.nan, math.inf, -math.inf, from_bits(0x7F7FFFFF)]
    return specials[kind] if kind < 4 and (r + c // 16) % 2 else tame(rng, r, c)


def inputs():
    out = {"huge": [[-FLT_MAX, 0.0, 1.0, 2.0 ** 127, -2.0 ** 120]]}
    for shape, (rows, cols) in SHAPES.items():
        for kind in KINDS:
            rng = random.Random(f"{shape} {kind}")
            x = [[globals()[kind](rng, r, c) for c in range(cols)] for r in range(rows)]
            if shape == "one":
                x = {"tame": [[-3.3125]], "wide": [[0.0]], "tiny": [[2.0 ** -149]],
                     "bad": [[math.nan]]}[kind]
            out[f"{shape}_{kind}"] = x
            if shape in ("flat", "tall"):
                out[f"{shape}_{kind}_bf16"] = [[bf16(v) for v in row] for row in x]
    return out


# ---- cases: (name of the input, whether it is a column copy, settings) ----

def policies(kind):
    return ("propagate", "saturate") if kind == "bad" else ("propagate",)


def over(shapes, kinds, columns, **settings):
    for shape in shapes:
        for kind in kinds:
            for policy in policies(kind):
                for column in columns:
                    yield f"{shape}_{kind}", column, dict(settings, nonfinite=policy)


def mx():
    for i, f in enumerate(MX):
        for j, rule in enumerate(("up", "floor", "ceil", "even")):
            s = dict(format=f, scale_format="e8m0", rule=rule)
            yield from over(("flat", "one"), KINDS, (0, 1), block=(1, 32), **s)
            yield from over(("long",), ("tame", "wide"), (0,), block=(1, 32), **s)
            yield from over(("tall",), ("wide",), ((i + j) % 2,), block=(16, 16), **s)
            if j < 2:
                yield from over(("odd",), ("wide",), ((i + j + 1) % 2,), block=(32, 32), **s)
            for block in ((0, 0), (1, 0), (1, 16), (1, 128), (128, 128)):
                yield from over(("flat",), ("tame", "bad"), (j % 2,), block=block, **s)
            for headroom in (0.75, 0.0625, 1.25):
                yield "huge", 0, dict(s, headroom=headroom, block=(1, 32))
                yield from over(("flat",), ("wide", "tiny"), (j % 2,), block=(1, 16),
                                headroom=headroom, **s)


def fp32():
    for i, f in enumerate(NARROW):
        for j, scale_format in enumerate(("fp32", "pow2")):
            s = dict(format=f, scale_format=scale_format, rule="up" if j else "nearest")
            for block in ((0, 0), (1, 0), (1, 16), (1, 32), (1, 128), (16, 16), (128, 128)):
                yield from over(("flat",), KINDS, ((i + j + block[1]) % 2,), block=block, **s)
            for block in ((0, 0), (16, 16), (32, 32)):
                yield from over(("tall",), ("wide",), ((i + j) % 2,), block=block, **s)
            yield from over(("one",), KINDS, (0, 1), block=(1, 128), **s)
            yield from over(("one",), KINDS, (0,), **s)
            for headroom in (0.75, 16 / 17):
                yield from over(("flat",), ("tame", "tiny"), (0,), headroom=headroom, **s)
            yield from over(("flat",), ("tiny",), (0,), block=(1, 16), fp16=1, **s)
            yield "flat_tiny_bf16", 1, dict(s, block=(1, 128), bf16=1)
            yield "flat_tiny_bf16", 0, dict(s, bf16=1)
            for headroom in (1.0, 0.75, 0.0625):
                yield "huge", 0, dict(s, headroom=headroom)
                yield "huge", 0, dict(s, headroom=headroom, block=(1, 16))


def state():
    """Scales that were there before: static and delayed ones."""
    for f in NARROW:
        for scale_format in ("fp32", "pow2"):
            s = dict(format=f, scale_format=scale_format,
                     rule="up" if scale_format == "pow2" else "nearest")
            for encode in (1.0, 0.125, fl(Fraction(1007, 10)), fl(Fraction(3 * 10 ** 38))):
                yield from over(("flat",), ("tame", "bad"), (0,), scale="static", encode=encode, **s)
            for encode in (0.0, fl(Fraction(1007, 10))):
                yield from over(("flat",), ("wide", "bad"), (1,), scale="delayed", encode=encode, **s)


def e4m3():
    for i, f in enumerate(NARROW):
        for j, outer in enumerate(("none", "tensor", "row")):
            s = dict(format=f, scale_format="e4m3", outer=outer)
            for block in ((1, 0), (1, 16), (1, 32), (1, 128), (16, 16), (128, 128)):
                if outer != "row" or block[0] == 1:
                    yield from over(("flat",), KINDS, ((i + j + block[1] // 16) % 2,), block=block,
                                    **s)
            yield from over(("tall",), ("wide",), ((i + j) % 2,), block=(1, 16), **s)
            yield from over(("one",), KINDS, (0,), block=(1, 16), **s)
            for headroom in (0.75, 16 / 17):
                yield from over(("flat",), ("tame", "wide"), (j % 2,), headroom=headroom,
                                block=(1, 16), **s)
        yield from over(("tall",), ("tame",), (i % 2,), block=(16, 16), outer="tensor", format=f,
                        scale_format="e4m3")


def four_over_six():
    for outer in ("tensor", "row"):
        for error in ("mae", "mse"):
            for bound in (256, 448):
                s = dict(format="e2m1", scale_format="e4m3", rule="four_over_six", outer=outer,
                         error=error, bound=bound)
                yield from over(("flat", "one"), KINDS, (0, 1), block=(1, 16), **s)
                yield from over(("tall",), ("tame", "bad"), (0,), block=(1, 16), **s)
                yield from over(("flat",), ("tame",), (0,), block=(1, 32), **s)
                yield from over(("flat",), ("tame",), (1,), block=(1, 0), **s)
                if outer == "tensor":
                    yield from over(("tall",), ("tame", "bad"), (0, 1), block=(16, 16), **s)


SCALED = [dict(), dict(block=(1, 32), scale_format="e8m0", rule="up"),
          dict(block=(1, 16), scale_format="e4m3", outer="tensor")]


def rounding():
    for f in NARROW:
        for mode in ("toward_zero", "half_away"):
            for i, s in enumerate(SCALED):
                yield from over(("flat",), KINDS, (i % 2,), format=f, rounding=mode, **s)
            yield from over(("flat",), ("tame", "wide"), (0,), format=f, rounding=mode, scale="static",
                            encode=1.0)


def stochastic():
    key = dict(seed=0x0123456789ABCDEF, operand=0x2BCDEF01, step=41)
    for i, f in enumerate(NARROW):
        for j, s in enumerate(SCALED):
            t = dict(s, format=f, rounding="stochastic")
            yield from over(("flat",), KINDS, ((i + j) % 2,), **t, **key)
            yield from over(("long",), ("tame",), (0,), **t, seed=7, operand=9)
            yield from over(("tall",), ("tame",), (1,), micro_batch=3, **t, **key)
        yield from over(("tall",), ("tame",), (0,), format=f, rounding="stochastic", block=(16, 16),
                        scale_format="e4m3", outer="tensor", seed=1 << 63, step=0xFFFFFFFF)
    yield from over(("flat",), ("tame",), (0,), format="e2m1", rounding="stochastic", block=(1, 16),
                    scale_format="e4m3", outer="tensor", seed=5, micro_batch=(1 << 32) // 15 + 1)


def hadamard():
    used = [dict(format="e4m3"), dict(format="e2m1", block=(1, 16), scale_format="e4m3",
                                      outer="tensor"),
            dict(format="e3m2", block=(1, 32), scale_format="e8m0", rule="up")]
    for i, n in enumerate((2, 4, 8, 16, 32, 64, 128)):
        for j, signs in enumerate(("fixed", "random", "none")):
            s = dict(used[(i + j) % 3], size=n, signs=signs)
            if signs == "random":
                s.update(sign_seed=0xFEDCBA9876543210 + n, sign_scope=77 * (n % 3), sign_step=n // 4)
            yield from over(("flat",), KINDS, ((i + j) % 2,), **s)
            yield f"tall_{KINDS[(i + j) % 3]}_bf16", 1, dict(s, bf16=1)
    for kind in KINDS:
        yield f"flat_{kind}_bf16", 1, dict(used[1], size=16, signs="fixed", bf16=1,
                                           rounding="stochastic", seed=3, operand=4)


FAMILIES = [mx, fp32, state, e4m3, four_over_six, rounding, stochastic, hadamard]


# ---- the file ----

def transposed(x):
    return [list(column) for column in zip(*x)]


def hash_of(rows):
    """FNV-1a over the bits of float32 values, 32 at a time; every NaN counts as the same."""
    h = 0xCBF29CE484222325
    for row in rows:
        for v in row:
            h = (h ^ bits_of(v)) * 0x100000001B3 & (1 << 64) - 1
    return h.to_bytes(8, "little")


def packed(row, bits):
    if bits == 4:
        row = row + [0] * (len(row) % 2)
        return bytes(a | b << 4 for a, b in zip(row[::2], row[1::2]))
    return b"".join(c.to_bytes(2 if bits > 8 else 1, "little") for c in row)


def floats(values):
    return b"".join(struct.pack("<I", bits_of(v)) for v in values)


def one_case(x, column, settings):
    got = quantize(transposed(x) if column else x, settings)
    data = b"".join(packed(row, got["bits"]) for row in got["codes"])
    bytes_only = settings.get("scale_format") in ("e8m0", "e4m3")
    data += bytes(got["scales"]) if bytes_only else floats(got["scales"])
    data += floats(got["amax"])
    k = len(x) if column else len(x[0])
    cut = [row[:k] for row in got["dequantized"]]
    decoded = transposed(got["decoded"]) if column else got["decoded"]
    return data + hash_of(decoded) + hash_of(transposed(cut) if column else cut)


def word(value):
    return ",".join(map(str, value)) if isinstance(value, tuple) else \
        value.hex() if isinstance(value, float) else str(value)


def family(make, x):
    lines, data = [], b""
    for name, column, settings in make():
        said = [f"{k}={word(v)}" for k, v in settings.items() if v != DEFAULTS[k]]
        lines.append(" ".join([f"x={name} column={column}"] + said))
        data += one_case(x[name], column, settings)
    return "\n".join(lines).encode() + b"\n", data


def save(path, tensors):
    """`tensors` is name to (type, shape, bytes)."""
    header, at = {}, 0
    for name, (kind, shape, data) in tensors.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, _, data in tensors.values():
            f.write(data)


def main(path):
    x, tensors = inputs(), {}
    for name, rows in x.items():
        tensors[f"{name}/x"] = ("F32", [len(rows), len(rows[0])], b"".join(map(floats, rows)))
    for make in FAMILIES:
        lines, data = family(make, x)
        tensors[f"{make.__name__}/cases"] = ("U8", [1, len(lines)], lines)
        tensors[f"{make.__name__}/bytes"] = ("U8", [1, len(data)], data)
        print(make.__name__, lines.count(b"\n"), "cases", len(lines), len(data), file=sys.stderr)
    save(path, tensors)


if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    main(sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "oracle.safetensors"))
