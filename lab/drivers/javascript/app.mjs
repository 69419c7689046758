// A small application on arangojs: a catalogue of articles and what is left of each. Run with the
// folder of the packages and the name under which the driver is installed there, and with
// PELLUCID_URL, PELLUCID_USER and PELLUCID_PASSWORD.
import assert from "node:assert/strict";
import { createRequire } from "node:module";

const [folder, driver] = process.argv.slice(2);
const { Database, aql } = createRequire(`${folder}/`)(driver);
const { PELLUCID_URL: url, PELLUCID_USER: username, PELLUCID_PASSWORD: password } = process.env;
const isOld = driver.endsWith("8");
const name = `stock-${driver}`;

/** What a call fails with: the error's `code` (HTTP status) and `errorNum`. */
async function failure(call) {
  try {
    await call();
  } catch (error) {
    return [error.code ?? error.response?.status, error.errorNum];
  }
  throw new Error(`${call} does not fail`);
}

const system = new Database({ url, auth: { username, password } });
assert.equal((await system.version()).server, "arango");
const stranger = new Database({ url, auth: { username, password: "wrong" } });
assert.deepEqual(await failure(() => stranger.version()), [401, 11]);

// A database of one's own, reached with a token from here on.
if ((await system.listDatabases()).includes(name)) await system.dropDatabase(name);
await system.createDatabase(name);
assert.deepEqual(await failure(() => system.createDatabase(name)), [409, 1207]);
const db = new Database({ url, databaseName: name });
const token = await db.login(username, password);
assert.equal(token.split(".").length, 3);
assert.equal(await db.exists(), true);
assert.equal(await system.database("nowhere").exists(), false);

// A collection with indexes.
const articles = db.collection("articles");
assert.equal(await articles.exists(), false);
await articles.create({ waitForSync: false });
assert.deepEqual(await failure(() => db.createCollection("articles")), [409, 1207]);
const wanted = { type: "persistent", fields: ["sku"], unique: true, name: "bySku" };
const index = await articles.ensureIndex(wanted);
assert.deepEqual([index.isNewlyCreated, index.unique], [true, true]);
assert.equal((await articles.ensureIndex(wanted)).isNewlyCreated, false);
await articles.ensureIndex({ type: "persistent", fields: ["group", "left"] });
assert.equal((await articles.indexes()).length, 3);

// Import, and what it says of documents that cannot be.
const items = Array.from({ length: 2500 }, (_, n) => ({
  _key: `a${n}`, sku: `S-${n}`, group: n % 5, left: n, name: `Artikel ${n} – größer`,
}));
const imported = await articles.import(items);
assert.deepEqual([imported.created, imported.errors], [2500, 0]);
const again = await articles.import([{ _key: "a1" }, { _key: "x", sku: "S-2" }], { details: true });
assert.deepEqual([again.created, again.errors, again.details.length], [0, 2, 2]);
assert.equal((await articles.count()).count, 2500);

// Queries, in several batches.
const cursor = await db.query(
  aql`FOR a IN ${articles} FILTER a.group == ${3} SORT a.left DESC RETURN a`,
  { batchSize: 70, count: true },
);
assert.equal(cursor.count, 500);
const lefts = [];
for await (const article of cursor) lefts.push(article.left);
assert.deepEqual(lefts, Array.from({ length: 500 }, (_, n) => 2498 - 5 * n));
const stream = await db.query(aql`FOR a IN ${articles} RETURN a._key`, {
  batchSize: 1000, stream: true,
});
assert.equal(new Set(await stream.all()).size, 2500);
const batches = await db.query("FOR i IN 1..25 RETURN i", {}, { batchSize: 10 });
const sizes = [];
for await (const batch of batches.batches) sizes.push(batch.length);
assert.deepEqual(sizes, [10, 10, 5]);
const left = await db.query("FOR i IN 1..25 RETURN i", {}, { batchSize: 10 });
await left.kill();
const planned = await db.explain(aql`FOR a IN ${articles} FILTER a.sku == ${"S-7"} RETURN a`);
assert.ok(planned.plan.nodes.some((node) => node.type === "IndexNode"));
assert.deepEqual(await failure(() => db.query("FOR a IN")), [400, 1501]);
assert.deepEqual(await failure(() => db.query("FOR a IN nowhere RETURN a")), [404, 1203]);
assert.deepEqual(await failure(() => db.query("RETURN @x")), [400, 1551]);

// Single documents: conflicts and conditions.
const first = await articles.document("a0");
assert.equal(first.name, "Artikel 0 – größer");
assert.deepEqual(await failure(() => articles.document("nothing")), [404, 1202]);
assert.equal(await articles.documentExists("a0"), true);
assert.equal(await articles.documentExists("nothing"), false);
const changed = await articles.update("a0", { left: 10, note: null }, { returnNew: true });
assert.deepEqual([changed._oldRev, changed.new.left], [first._rev, 10]);
const stale = () => articles.replace("a0", first, { ignoreRevs: false });
assert.deepEqual(await failure(stale), [412, 1200]);
const staleMatch = () => articles.replace("a0", { left: 1 }, { ifMatch: first._rev });
if (!isOld) assert.deepEqual(await failure(staleMatch), [412, 1200]);
const read = (options) => () => articles.document("a0", options);
assert.deepEqual(await failure(read({ ifMatch: first._rev })), [412, 1200]);
assert.equal((await articles.document("a0", { ifMatch: changed._rev })).left, 10);
// arangojs 8.3 throws what it makes of 304 where nobody can catch it, so there it is asked for plainly.
const headers = { "if-none-match": changed._rev };
const path = "/_api/document/articles/a0";
const plainly = () => db.request({ path, headers }, (response) => response.statusCode);
if (isOld) assert.equal(await plainly(), 304);
else assert.equal((await failure(read({ ifNoneMatch: changed._rev })))[0], 304);
const double = () => articles.save({ sku: "S-1" });
assert.deepEqual(await failure(double), [409, 1210]);
const kept = await articles.save({ _key: "a1" }, { overwriteMode: "ignore" });
assert.equal(kept._key, "a1");

// Several at a time, of which some fail.
const saved = await articles.saveAll([{ _key: "n1", sku: "N-1" }, { _key: "n1", sku: "N-2" }]);
assert.deepEqual(saved.map((one) => one.errorNum ?? one._key), ["n1", 1210]);
await articles.updateAll([{ _key: "n1", group: 9 }]);
assert.deepEqual((await articles.documents(["n1", "zz"])).map((one) => one.group ?? one.errorNum), [
  9, 1202,
]);
assert.equal((await articles.removeAll(["n1"]))[0]._key, "n1");

// Many writers of one document: with retries none is lost.
await articles.update("a2", { left: 0 });
const more = (number) =>
  db.query(aql`LET a = DOCUMENT(${articles}, "a2")
    UPDATE a WITH { left: a.left + ${number} } IN ${articles}`, { retryOnConflict: 1000 });
await Promise.all(Array.from({ length: 60 }, () => more(1)));
assert.equal((await articles.document("a2")).left, 60);
assert.ok(Number.isFinite(db.queueTime.getLatest()));

await articles.truncate();
assert.equal((await articles.count()).count, 0);
await articles.drop();
await system.dropDatabase(name);
for (const one of [db, system, stranger]) one.close();
console.log(`${driver}: done`);
