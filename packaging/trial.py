"""Shared parts of the tests of packages and of images: running commands, also those of documents,
waiting, and requests over HTTP."""
import http.client
import pathlib
import re
import subprocess
import sys
import textwrap
import time

DOCS = pathlib.Path(__file__).resolve().parent.parent / "docs"

# The longest wait for a start, a stop or an answer, in seconds.
PATIENCE_SECONDS = 120


def fail(what):
    sys.exit(f"{pathlib.Path(sys.argv[0]).name}: {what}")


def run(*command, **more):
    done = subprocess.run(command, text=True, capture_output=True, **more)
    if done.returncode != 0:
        fail(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def block(page, first):
    """The commands of the only block of a page that begins with `first`."""
    blocks = re.findall(r"^( *)```\w*\n(.*?)^\1```$", (DOCS / page).read_text(), re.M | re.S)
    commands, = (textwrap.dedent(text) for _, text in blocks if text.lstrip().startswith(first))
    return commands


def wait_until(condition, what):
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > end:
            fail(f"waited in vain until {what}")
        time.sleep(0.02)


def ask(port, method, path, body=None, headers={}, trust=None):
    """Makes a request; returns the status and the body of the answer. With `trust`, it uses TLS."""
    if trust is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
    else:
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS,
                                                 context=trust)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def wait_for_server(port, server):
    """Waits until the server of that process answers; fails if the process has ended."""
    def is_ready():
        if server.poll() is not None:
            fail(f"the server ended with {server.returncode}")
        try:
            return ask(port, "GET", "/v0/status")[0] == 200
        except OSError:
            return False
    wait_until(is_ready, f"a server answers at port {port}")
