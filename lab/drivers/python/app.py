"""A small application on python-arango: customers and their orders.

Run with PELLUCID_URL, PELLUCID_USER and PELLUCID_PASSWORD.
"""

import os

from arango import ArangoClient
from arango.exceptions import (
    AQLQueryExecuteError,
    ArangoServerError,
    CollectionCreateError,
    DatabaseCreateError,
    DocumentInsertError,
    DocumentRevisionError,
    TransactionInitError,
)

URL, USER, PASSWORD = (os.environ["PELLUCID_" + name] for name in ("URL", "USER", "PASSWORD"))
NAME = "orders-python"


def failure(call, kind=ArangoServerError):
    """The HTTP status and the number of the error that a call fails with."""
    try:
        call()
    except kind as error:
        return error.http_code, error.error_code
    raise AssertionError("the call does not fail")


def databases(client):
    """The database of this run, empty, over Basic and then over a token of its own."""
    system = client.db("_system", username=USER, password=PASSWORD, verify=True)
    assert system.version().startswith("3.12")
    stranger = client.db("_system", username=USER, password="wrong")
    assert failure(stranger.properties) == (401, 11)
    if system.has_database(NAME):
        system.delete_database(NAME)
    assert system.create_database(NAME)
    assert failure(lambda: system.create_database(NAME), DatabaseCreateError) == (409, 1207)
    return system, client.db(NAME, username=USER, password=PASSWORD, auth_method="jwt")


def fill(db):
    """A collection with indexes, and documents that are imported."""
    orders = db.create_collection("orders")
    assert failure(lambda: db.create_collection("orders"), CollectionCreateError) == (409, 1207)
    wanted = {"type": "persistent", "fields": ["number"], "unique": True}
    assert orders.add_index(wanted)["isNewlyCreated"] is True
    assert orders.add_index(wanted)["isNewlyCreated"] is False
    orders.add_index({"type": "persistent", "fields": ["customer", "total"]})
    assert [index["type"] for index in orders.indexes()] == ["primary", "persistent", "persistent"]
    documents = [
        {"_key": f"o{n}", "number": n, "customer": f"c{n % 10}", "total": n / 4}
        for n in range(2000)
    ]
    done = orders.import_bulk(documents)
    assert (done["created"], done["errors"]) == (2000, 0)
    again = orders.import_bulk(documents[:5], on_duplicate="ignore")
    assert (again["created"], again["ignored"]) == (0, 5)
    assert orders.count() == 2000
    return orders


def query(db):
    """Cursors over several batches, and queries that fail."""
    cursor = db.aql.execute(
        "FOR o IN @@orders FILTER o.customer == @who SORT o.total RETURN o.number",
        bind_vars={"@orders": "orders", "who": "c4"},
        batch_size=30,
        count=True,
    )
    assert cursor.count() == 200
    assert list(cursor) == list(range(4, 2000, 10))
    found = db.collection("orders").find({"customer": "c4"}, limit=3)
    assert len(list(found)) == 3
    stream = db.aql.execute("FOR i IN 1..5000 RETURN i", batch_size=1000, stream=True)
    assert sum(stream) == 5000 * 5001 // 2
    written = db.aql.execute("FOR o IN orders FILTER o.total > 490 REMOVE o IN orders")
    assert written.statistics()["modified"] == 39
    ask = db.aql.execute
    assert failure(lambda: ask("INVALID QUERY"), AQLQueryExecuteError) == (400, 1501)
    assert failure(lambda: ask("FOR o IN nowhere RETURN o"), AQLQueryExecuteError) == (404, 1203)
    assert failure(lambda: ask("RETURN 1", bind_vars={"x": 1})) == (400, 1552)
    plan = db.aql.explain("FOR o IN orders FILTER o.number == 7 RETURN o")
    assert any(node["type"] == "IndexNode" for node in plan["nodes"])


def documents(orders):
    """Single documents: conditions, conflicts, and what several at a time say."""
    first = orders.get("o1")
    assert first["total"] == 0.25 and orders.get("nothing") is None
    assert orders.has("o1") and not orders.has("nothing")
    changed = orders.update({"_key": "o1", "state": {"paid": True}}, return_new=True)
    assert changed["_old_rev"] == first["_rev"] and changed["new"]["state"] == {"paid": True}
    stale = {"_key": "o1", "_rev": first["_rev"], "total": 1}
    assert failure(lambda: orders.update(stale, check_rev=True), DocumentRevisionError) == (
        412,
        1200,
    )
    assert failure(lambda: orders.get("o1", rev=first["_rev"]), DocumentRevisionError)[0] == 412
    assert orders.get("o1", rev=changed["_rev"])["state"] == {"paid": True}
    double = {"number": 2}
    assert failure(lambda: orders.insert(double), DocumentInsertError) == (409, 1210)
    several = orders.insert_many([{"_key": "n1", "number": -1}, {"_key": "n1", "number": -2}])
    assert several[0]["_key"] == "n1" and several[1].error_code == 1210
    assert len(orders.get_many(["n1", "o2", "nothing"])) == 2
    assert orders.delete("n1")["_key"] == "n1"
    assert orders.delete("n1", ignore_missing=True) is False
    replaced = orders.replace({"_key": "o2", "number": 2}, return_old=True)
    assert replaced["old"]["customer"] == "c2"


def main():
    client = ArangoClient(hosts=URL)
    system, db = databases(client)
    orders = fill(db)
    query(db)
    documents(orders)
    begin = lambda: db.begin_transaction(write="orders")  # noqa: E731
    assert failure(begin, TransactionInitError) == (501, 9)
    assert orders.truncate() and orders.count() == 0
    assert db.delete_collection("orders") and system.delete_database(NAME)
    client.close()
    print("python-arango: done")


main()
