"""An SFTP server as far away as a network would have it: what sshfs runs in place of ssh.

far.py MILLISECONDS SERVER: each byte takes half of so many milliseconds in either direction, however many are on their way. The rest of
the arguments is ssh's and says nothing here.
"""

import os
import queue
import subprocess
import sys
import threading
import time


def relay(source, sink, delay):
    """Passes bytes on, each after its time; closes the sink at the end."""
    line = queue.Queue()

    def write():
        while True:
            due, piece = line.get()
            if not piece:
                break
            time.sleep(max(0.0, due - time.monotonic()))
            try:
                while piece:
                    piece = piece[os.write(sink, piece):]
            except OSError:
                break
        os.close(sink)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    piece = b"-"
    while piece:
        try:
            piece = os.read(source, 1 << 18)
        except OSError:  # sshfs has ended with an answer unread
            piece = b""
        line.put((time.monotonic() + delay, piece))
    writer.join()


def main():
    delay = float(sys.argv[1]) / 2000
    server = subprocess.Popen([sys.argv[2]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    asked = threading.Thread(target=relay, args=(0, os.dup(server.stdin.fileno()), delay), daemon=True)
    asked.start()
    server.stdin.close()
    relay(server.stdout.fileno(), 1, delay)
    server.wait()


main()
