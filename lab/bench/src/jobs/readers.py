"""Readers of large files, as programs have them. Run by `foreseek lab bench jobs`: python3 readers.py PATTERN FILE...

Every reader is a process. The exit status is 0 where all of them have read what they should.
"""

import mmap
import multiprocessing
import os
import random
import sys
import zlib

KIB, MIB = 1 << 10, 1 << 20


def through(path, start, end, block):
    """Reads a part of a file from its beginning to its end."""
    with open(path, "rb", buffering=0) as file:
        file.seek(start)
        total = 0
        while start + total < end:
            data = file.read(min(block, end - start - total))
            if not data:
                sys.exit(f"{path} ends at {start + total}, not at {end}")
            total += len(data)
            zlib.adler32(data)


def mapped(path, part, parts, block):
    """Touches a file's pages through a mapping, block by block; of the blocks every so many."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
        for start in range(part * block, len(view), parts * block):
            zlib.adler32(view[start : start + block])


def pieces(path, part, parts, piece):
    """Reads the pieces of a file in an order drawn from a seed, as peers ask for them."""
    with open(path, "rb", buffering=0) as file:
        count = os.fstat(file.fileno()).st_size // piece
        order = list(range(count))
        random.Random(1).shuffle(order)
        for number in order[part::parts]:
            for block in range(0, piece, 16 * KIB):
                if len(os.pread(file.fileno(), 16 * KIB, number * piece + block)) != 16 * KIB:
                    sys.exit(f"{path} is short at piece {number}")


def readers(pattern, paths):
    """What is run side by side: functions with their arguments."""
    path = paths[0]
    size = os.stat(path).st_size
    if pattern == "mmap":
        return [(mapped, (path, 0, 1, 64 * KIB)) for path in paths]
    if pattern == "model":
        # Eight workers load their tensors of one file: slices of 4 MiB that lie in turn.
        return [(mapped, (path, part, 8, 4 * MIB)) for part in range(8)]
    if pattern == "check":
        # Five readers of a backup check, each with its part of an archive.
        return [(through, (path, size * part // 5, size * (part + 1) // 5, 128 * KIB)) for part in range(5)]
    if pattern == "torrent":
        # Six peers, pieces of 256 KiB, requests of 16 KiB.
        return [(pieces, (path, part, 6, 256 * KIB)) for part in range(6)]
    sys.exit(f"no pattern is called {pattern}")


def main():
    context = multiprocessing.get_context("fork")
    running = [context.Process(target=what, args=given) for what, given in readers(sys.argv[1], sys.argv[2:])]
    for process in running:
        process.start()
    for process in running:
        process.join()
    sys.exit(max(abs(process.exitcode) for process in running))


main()
