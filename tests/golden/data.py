#!/usr/bin/env python3
"""The known answers in test_idx.c and test_sampler.c, worked out a second time from the definitions in plain Python.

Prints the fingerprint of the folder test_idx.c makes (3001 + 1003 images of 28x27) and the CRC-32 of some orders.
"""
import struct
import zlib

M32, M64 = 2**32 - 1, 2**64 - 1
MIX_A, MIX_B = 0x9E3779B97F4A7C15, 0xD1B54A32D192ED03
CHUNK = 1 << 20


def mix(h, word):
    h = ((h ^ word) * MIX_A) & M64
    return ((h ^ (h >> 29)) * MIX_B) & M64


def hash_bytes(data):
    lane, h = [1, 2, 3, 4], mix(MIX_B, len(data))
    whole = len(data) // 32 * 32
    for i, word in enumerate(struct.unpack("<%dQ" % (whole // 8), data[:whole])):
        lane[i % 4] = mix(lane[i % 4], word)
    for byte in data[whole:]:
        h = mix(h, byte)
    for word in lane:
        h = mix(h, word)
    return h ^ (h >> 32)


def fingerprint(classes, shape, train, test):
    h = mix(mix(MIX_A, classes), len(shape))
    for extent in shape:
        h = mix(h, extent)
    h = mix(mix(h, len(train[1])), len(test[1]))
    for part in train + test:
        for at in range(0, len(part), CHUNK):
            h = mix(h, hash_bytes(part[at:at + CHUNK]))
    return h ^ (h >> 32)


def made(which, n):
    """idx_byte of idx_files.h."""
    words = (((i + 7919 * which) * 2654435761) & M32 for i in range(n))
    return bytes(x >> 24 for x in words) if which % 2 == 0 else bytes((x >> 16) % 10 for x in words)


def philox(key, c0, c1, c2, c3):
    k0, k1 = key & M32, key >> 32
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & M32, (p0 >> 32) ^ c3 ^ k1, p0 & M32
        k0, k1 = (k0 + 0x9E3779B9) & M32, (k1 + 0xBB67AE85) & M32
    return c0


def order(seed, epoch, count):
    out = list(range(count))
    for i in range(count - 1, 0, -1):
        bound, attempt = i + 1, 0
        while True:
            product = philox(seed, i, attempt, 0, 2 << 28 | epoch) * bound
            if product & M32 >= 2**32 % bound:
                break
            attempt += 1
        j = product >> 32
        out[i], out[j] = out[j], out[i]
    return out


if __name__ == "__main__":
    pixels = 28 * 27
    print("fingerprint 0x%016X" % fingerprint(10, (28, 27, 1), [made(0, 3001 * pixels), made(1, 3001)],
                                              [made(2, 1003 * pixels), made(3, 1003)]))
    for seed, epoch, count in ((0, 0, 10), (42, 3, 1000), (42, 0, 60000), (0xFEDCBA9876543210, 65535, 60000)):
        o = order(seed, epoch, count)
        print(seed, epoch, count, "0x%08X" % zlib.crc32(struct.pack("<%dI" % count, *o)), o[:10])
