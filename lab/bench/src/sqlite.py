"""The peer of `bench-documents`: the same documents as JSON text in SQLite.

sqlite.py LINES FOLDER LEAST: for each line `import` or `scan` on standard input, prints the seconds
that it took and the number of documents. The import is one transaction into a new database with one
expression index. Nothing waits for the medium, as in the server's default.
"""

import os
import sqlite3
import sys
import time

lines_path, folder, least = sys.argv[1], sys.argv[2], float(sys.argv[3])
with open(lines_path, encoding="utf-8") as file:
    documents = file.read().splitlines()
path = os.path.join(folder, "peer.sqlite")
connection = None


def load():
    global connection
    if connection:
        connection.close()
        os.remove(path)
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous=OFF")
    connection.execute("CREATE TABLE documents (id INTEGER PRIMARY KEY, document TEXT NOT NULL)")
    connection.execute(
        "CREATE INDEX by_end ON documents (json_extract(document, '$.EndToEndId'))"
    )
    rows = [(document,) for document in documents]
    begun = time.perf_counter()
    connection.execute("BEGIN")
    connection.executemany("INSERT INTO documents (document) VALUES (?)", rows)
    connection.execute("COMMIT")
    return time.perf_counter() - begun, len(rows)


def scan():
    question = "SELECT document FROM documents WHERE json_extract(document, '$.Amt') >= ?"
    begun = time.perf_counter()
    found = connection.execute(question, (least,)).fetchall()
    return time.perf_counter() - begun, len(found)


print("ready", flush=True)
for command in sys.stdin:
    seconds, count = load() if command.strip() == "import" else scan()
    print(f"{seconds:.9f} {count}", flush=True)
