#!/usr/bin/env python3
# Requests to a FUSE server by three ways: threads that read /dev/fuse, one thread, rings of io_uring.
# ring.py PASSTHROUGH_HP ROUNDS FORESEEK, as root; the server is libfuse's example passthrough_hp. "Kept": the kernel keeps attributes and names for a while.
import os, shutil, statistics, subprocess, sys, tempfile, threading, time
SERVER, ROUNDS, FILES = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5, 5000
SWITCH = "/sys/module/fuse/parameters/enable_uring"
MOUNT = sys.argv[3]
HP = [SERVER, "--foreground", "--nopassthrough"]
WAYS = {"native": None, "threads": [*HP, "--nocache", "--clone-fd"], "one thread": [*HP, "--nocache", "--single"], "rings": [*HP, "--nocache", "-o", "io_uring"],
        "threads and kept": [*HP, "--clone-fd"], "rings and kept": [*HP, "-o", "io_uring"], "foreseek mount": [MOUNT, "mount", "--foreground"]}
place = tempfile.mkdtemp(dir="/dev/shm")
source, point = place + "/source", place + "/point"
os.mkdir(source), os.mkdir(point)
for n in range(FILES):
    with open(f"{source}/{n}", "wb") as f: f.write(bytes(4096))
def opens(root, names):
    for n in names: os.close(os.open(f"{root}/{n}", os.O_RDONLY))
def stats(root, names):
    for n in names: os.stat(f"{root}/{n}")
def reads(root, names):
    for n in names:
        d = os.open(f"{root}/{n}", os.O_RDONLY); os.read(d, 4096); os.close(d)
def timed(call, root, programs):
    def child(part):
        pid = os.fork()
        if pid == 0: call(root, part); os._exit(0)
        return pid
    begun = time.monotonic()
    for pid in [child(range(k, FILES, programs)) for k in range(programs)]: os.waitpid(pid, 0)
    return (time.monotonic() - begun) / FILES * 1e6
rows = {}
was = open(SWITCH).read().strip()
try:
    open(SWITCH, "w").write("Y")
    for turn in range(ROUNDS):
        for way in list(WAYS)[turn % len(WAYS):] + list(WAYS)[:turn % len(WAYS)]:
            root, server = source, None
            if WAYS[way] is not None:
                server = subprocess.Popen([*WAYS[way], source, point], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                end = time.monotonic() + 20
                while not os.path.ismount(point):
                    if time.monotonic() > end: raise SystemExit(f"{way}: not mounted within 20 s")
                    time.sleep(0.01)
                root = point
            try:
                opens(root, range(FILES))
                for name, call, programs in (("stat", stats, 1), ("open and close", opens, 1), ("open and read 4 KiB and close", reads, 1), ("open and close by two programs", opens, 2)):
                    rows.setdefault((name, way), []).append(timed(call, root, programs))
            finally:
                if server:
                    subprocess.run(["umount", point], check=True, timeout=30)
                    server.wait(30)
finally:
    open(SWITCH, "w").write(was)
    subprocess.run(["umount", "-l", point], stderr=subprocess.DEVNULL)
    shutil.rmtree(place)
names = list(dict.fromkeys(name for name, _ in rows))
print(f"{'request':34}" + "".join(f"{way:>18}" for way in WAYS))
for name in names:
    print(f"{name:34}" + "".join(f"{statistics.median(rows[name, way]):18.1f}" for way in WAYS))
print("\nrounds, us")
for (name, way), values in rows.items(): print(f"{name}; {way}: " + " ".join(f"{v:.1f}" for v in values))
