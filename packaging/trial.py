"""Pieces that the tests of packages and of images share: commands, waits, requests over HTTP."""
import http.client
import pathlib
import subprocess
import sys
import time

# The longest wait for a start, a stop or an answer.
PATIENCE_SECONDS = 120


def fail(what):
    sys.exit(f"{pathlib.Path(sys.argv[0]).name}: {what}")


def run(*command, **more):
    done = subprocess.run(command, text=True, capture_output=True, **more)
    if done.returncode != 0:
        fail(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def wait_until(condition, what):
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > end:
            fail(f"waited in vain until {what}")
        time.sleep(0.02)


def ask(port, method, path, body=None, headers={}):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def wait_for_server(port, server):
    """Returns once the server of that process answers; one that ended has said why."""
    def is_ready():
        if server.poll() is not None:
            fail(f"the server ended with {server.returncode}")
        try:
            return ask(port, "GET", "/v0/status")[0] == 200
        except OSError:
            return False
    wait_until(is_ready, f"a server answers at port {port}")
