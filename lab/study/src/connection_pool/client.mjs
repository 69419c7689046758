// One client of the study connection-pool. It runs an unmodified driver, and records through Node's
// own interfaces when each request is asked for, handed to the HTTP module, given a socket,
// connected, answered and understood. Plans come as lines of JSON on standard input; the figures of
// each run go as a line to standard output.
//
// For the mean of a stage, a query need not be matched with its request: the sum of all end times
// of the stage minus the sum of all its start times is the sum of its durations.

import http from "node:http";
import { createRequire } from "node:module";
import diagnostics from "node:diagnostics_channel";
import { monitorEventLoopDelay, performance } from "node:perf_hooks";
import { createInterface } from "node:readline";

// The folder in which the drivers are installed.
const require = createRequire(`${process.argv[2]}/`);
const now = () => performance.now();

/** The sums of a run, in milliseconds; `null` while none is measured. */
let sums = null;

function begin() {
  sums = {
    queries: 0, requests: 0, dialling: 0, viaFetch: false,
    // The sockets that carried requests. Counting opened sockets would miss those of fetch, which
    // keeps them from one run to the next.
    sockets: new Set(),
    asked: 0, handed: 0, assigned: 0, connecting: 0, answered: 0, understood: 0,
    server: {}, nodes: {},
  };
}

/** Adds the server's times of a request: `name;dur=milliseconds`, separated by commas. */
function addServerTiming(header) {
  if (!header || !sums) return;
  for (const metric of header.split(", ")) {
    const [name, duration] = metric.split(";dur=");
    sums.server[name] = (sums.server[name] ?? 0) + Number(duration);
  }
}

// arangojs 8 and axios call `http.request`; they look it up in the module at each call.
const request = http.request;
http.request = function (...given) {
  const handed = now();
  const made = request.apply(this, given);
  if (!sums) return made;
  sums.requests += 1;
  made.once("socket", (socket) => {
    const assigned = now();
    sums?.sockets.add(socket);
    // Add only answered requests, so that every sum is over the same requests.
    let connected = assigned;
    if (socket.connecting) socket.once("connect", () => (connected = now()));
    made.once("response", (response) => {
      sums.handed += handed;
      sums.assigned += assigned;
      sums.connecting += connected - assigned;
      sums.answered += now();
      addServerTiming(response.headers["server-timing"]);
      sums.nodes[socket.remotePort] = (sums.nodes[socket.remotePort] ?? 0) + 1;
    });
  });
  return made;
};

// arangojs 10 uses fetch, which is Node's own undici; undici publishes events of its requests.
const created = new WeakMap();
const sent = new WeakMap();
const listen = (name, what) => diagnostics.subscribe(name, (message) => sums && what(message));
listen("undici:request:create", ({ request }) => {
  sums.viaFetch = true;
  sums.requests += 1;
  created.set(request, now());
});
listen("undici:client:sendHeaders", ({ request, socket }) => {
  sums.sockets.add(socket);
  sent.set(request, now());
});
listen("undici:client:beforeConnect", () => {
  sums.dialling += 1;
  sums.connecting -= now();
});
const dialled = () => {
  sums.dialling -= 1;
  sums.connecting += now();
};
listen("undici:client:connected", dialled);
listen("undici:client:connectError", dialled);
listen("undici:request:headers", ({ request, response }) => {
  const [handed, assigned] = [created.get(request), sent.get(request)];
  if (handed === undefined || assigned === undefined) return;
  sums.handed += handed;
  // `sendHeaders` comes after connecting; that time is subtracted below.
  sums.assigned += assigned;
  sums.answered += now();
  for (let at = 0; at + 1 < response.headers.length; at += 2) {
    if (String(response.headers[at]).toLowerCase() === "server-timing") {
      addServerTiming(String(response.headers[at + 1]));
    }
  }
});

const QUERY = "FOR doc IN transactionRelationship FILTER doc.EndToEndId == @id RETURN doc";
const asTiming = { prefer: "timing" };

/** A client of this database of arangojs. */
function clientOf(db, aql) {
  const collection = db.collection("transactionRelationship");
  return {
    async query(id) {
      const cursor = await db.query(
        aql`FOR doc IN ${collection} FILTER doc.EndToEndId == ${id} RETURN doc`,
      );
      return cursor.all();
    },
    close: () => db.close(),
  };
}

/** For each driver, a function that makes a client: its `query(id)` returns the documents. */
const drivers = {
  "arangojs-8"(plan) {
    const { Database, aql } = require("arangojs-8");
    const agentOptions = plan.sockets ? { maxSockets: plan.sockets, keepAlive: true } : undefined;
    const options = { url: plan.urls[0], databaseName: "_system", headers: asTiming };
    if (plan.strategy) {
      Object.assign(options, { url: plan.urls, loadBalancingStrategy: plan.strategy });
    }
    const db = new Database(agentOptions ? { ...options, agentOptions } : options);
    return clientOf(db, aql);
  },
  "arangojs-10"(plan) {
    const { Database, aql } = require("arangojs-10");
    const fetchOptions = { headers: asTiming };
    const options = { url: plan.urls[0], databaseName: "_system", fetchOptions };
    const db = new Database(plan.sockets ? { ...options, poolSize: plan.sockets } : options);
    return clientOf(db, aql);
  },
  axios(plan) {
    const axios = require("axios");
    return {
      async query(id) {
        const body = { query: QUERY, bindVars: { id } };
        const auth = { username: "root", password: "" };
        const url = `${plan.urls[0]}/_db/_system/_api/cursor`;
        return (await axios.post(url, body, { auth, headers: asTiming })).data.result;
      },
      close: () => http.globalAgent.destroy(),
    };
  },
};

/** A name for a failure: the server's status and error number if there are any, else Node's code. */
function failureOf(error) {
  const status = error.response?.status ?? error.code;
  const number = error.errorNum ?? error.response?.data?.errorNum;
  const headers = error.response?.headers;
  const again = headers?.get?.("retry-after") ?? headers?.["retry-after"];
  const name = number === undefined ? status : `${status}/${number}`;
  if (again !== undefined && again !== null) return `${name}, to come again after ${again} s`;
  if (number !== undefined) return name;
  return String(error.cause?.code ?? status ?? error.name);
}

async function run(plan) {
  const client = drivers[plan.driver](plan);
  const [failures, times] = [{}, []];
  let wrong = 0;
  const delay = monitorEventLoopDelay({ resolution: 1 });
  const processor = process.cpuUsage();
  begin();
  delay.enable();
  const started = now();
  await Promise.all(
    Array.from({ length: plan.queries }, async (_, number) => {
      const asked = now();
      try {
        const found = await client.query(plan.ids[number % plan.ids.length]);
        const understood = now();
        sums.queries += 1;
        sums.asked += asked;
        sums.understood += understood;
        times.push(understood - asked);
        if (found.length !== plan.documents) wrong += 1;
      } catch (error) {
        const name = failureOf(error);
        failures[name] = (failures[name] ?? 0) + 1;
      }
    }),
  );
  const wall = now() - started;
  delay.disable();
  const used = process.cpuUsage(processor);
  const done = sums;
  sums = null;
  // Connections that are still being opened count up to this moment.
  done.connecting += done.dialling * now();
  client.close();
  times.sort((a, b) => a - b);
  return figures(done, { wall, used, delay, failures, wrong, times });
}

function figures(sums, { wall, used, delay, failures, wrong, times }) {
  const inServer = sums.server.total ?? 0;
  // After failures there are more requests than answered queries, so the stages are unknown.
  const whole = Object.keys(failures).length === 0 && sums.queries > 0;
  const each = (sum) => (whole ? sum / sums.queries : null);
  // With fetch, `assigned` comes after connecting; with the HTTP module, before it.
  const undiciConnecting = sums.viaFetch ? sums.connecting : 0;
  return {
    wall_ms: wall,
    answered: sums.queries,
    wrong,
    failures,
    requests: sums.requests,
    sockets: sums.sockets.size,
    nodes: sums.nodes,
    processor_ms: (used.user + used.system) / 1000,
    loop_delay_p99_ms: delay.percentile(99) / 1e6,
    median_ms: times[Math.floor(times.length / 2)] ?? null,
    p99_ms: times[Math.floor(times.length * 0.99)] ?? null,
    stages: {
      driver_ms: each(sums.handed - sums.asked),
      socket_ms: each(sums.assigned - sums.handed - undiciConnecting),
      connect_ms: each(sums.connecting),
      server_ms: each(inServer),
      between_ms: each(
        sums.answered - sums.assigned - (sums.connecting - undiciConnecting) - inServer,
      ),
      decode_ms: each(sums.understood - sums.answered),
    },
    server: Object.fromEntries(
      Object.entries(sums.server).map(([name, sum]) => [name, each(sum)]),
    ),
  };
}

for await (const line of createInterface({ input: process.stdin })) {
  if (line.trim() === "") continue;
  console.log(JSON.stringify(await run(JSON.parse(line))));
}
process.exit(0);
