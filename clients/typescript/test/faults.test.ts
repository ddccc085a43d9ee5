/** An ERL that is away, slow or broken: the agent never fails and never waits, and every run is recorded once. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import type { RequestListener } from "node:http";
import { join } from "node:path";
import { describe } from "node:test";
import { fileURLToPath } from "node:url";

import { ERL, ERLError, Refused, Unavailable } from "erl-client";

import { listRecorded, makeClient, makeFolder, recorded, serve, test, time } from "./support.js";

const BUDGET_MS = 2_000;
const SLACK_MS = 1_500; // of a loaded machine
const CLOSED_PORT = "http://127.0.0.1:9";
const ERROR = JSON.stringify({ error: { code: "rate_limited", message: "Too many requests.", retryable: true } });

const throttled: RequestListener = (_, response) => void response.writeHead(429, { "Retry-After": "60" }).end(ERROR);
const faults: Record<string, RequestListener> = {
  throttled,
  "server error": (_, response) => void response.writeHead(500).end("<h1>Server Error (500)</h1>"),
  garbage: (_, response) => void response.end("\0\xff not what you asked for"),
  redirects: (_, response) => void response.writeHead(302, { Location: process.env.ERL_URL }).end(),
  "hangs up": (request) => void request.socket.destroy(),
  "stops halfway": (_, response) => void response.writeHead(200, { "Content-Length": 99 }).write("{"),
  slow: () => undefined,
};

/** Run an agent once for each name, and return how long the slowest took. */
async function runAgent(erl: ERL, names: string[]): Promise<number> {
  let slowest = 0;
  for (const externalId of names) {
    const work = (): Promise<void> => erl.run("work", { externalId }, (run) => run.success());
    slowest = Math.max(slowest, await time(work));
  }
  return slowest;
}

function makeNames(count: number): string[] {
  return Array.from({ length: count }, () => randomUUID());
}

/** Run build/agent.js, and return how it ended. */
function runProcess(args: string[], env: NodeJS.ProcessEnv): Promise<{ code: number | null; output: string }> {
  const program = fileURLToPath(new URL("agent.js", import.meta.url));
  const agent = spawn(process.execPath, [program, ...args], { env: { ...process.env, ...env }, stdio: "pipe" });
  let output = "";
  for (const stream of [agent.stdout, agent.stderr]) stream.on("data", (chunk: Buffer) => (output += chunk.toString()));
  return new Promise((resolve) => agent.on("close", (code) => resolve({ code, output })));
}

describe("runs are recorded once when an ERL that is broken is back", { concurrency: true }, () => {
  for (const [name, fault] of Object.entries(faults)) test(name, () => recordLater(fault));
});

async function recordLater(fault: RequestListener): Promise<void> {
  const [spool, names] = [makeFolder(), makeNames(3)];
  const { url } = await serve(fault);
  const warnings: string[] = [];
  const agent = new ERL({ url, spool, warn: (line) => warnings.push(line) });
  const slowest = await runAgent(agent, names);
  const closing = await time(() => agent.close());
  assert.ok(Math.max(slowest, closing) < BUDGET_MS + SLACK_MS, `${slowest} ms, ${closing} ms`);
  assert.doesNotMatch(warnings.join(), new RegExp(process.env.ERL_API_KEY ?? ""));

  const back = makeClient({ spool });
  for (const externalId of names) assert.equal((await recorded(back, externalId)).outcome, "success");
}

test("an ERL that is away keeps nobody waiting, and gets its runs in their order", async () => {
  const [spool, names] = [makeFolder(), makeNames(2)];
  const slowest = await runAgent(new ERL({ url: CLOSED_PORT, spool, warn: () => undefined }), names);
  assert.ok(slowest < BUDGET_MS, `${slowest} ms`);
  const files = readdirSync(spool).filter((file) => file.endsWith(".json"));
  assert.deepEqual(
    files.map((file) => JSON.parse(readFileSync(join(spool, file), "utf8")).external_id),
    names,
  );
  assert.match(files[0] ?? "", /^\d{20}-[0-9a-f-]{36}\.json$/);
  assert.equal(statSync(join(spool, files[0] ?? "")).mode & 0o777, 0o600);
  assert.equal(statSync(spool).mode & 0o777, 0o700);

  await recorded(makeClient({ spool }), names[1] ?? "");
});

test("ERL is left alone as long as it asks", async () => {
  const { url, paths } = await serve(throttled);
  const agent = new ERL({ url, spool: makeFolder(), warn: () => undefined });
  await runAgent(agent, makeNames(3));
  assert.equal(await agent.flush(1), false);
  assert.equal(await agent.flush(1), false); // which asks for another try

  assert.deepEqual(paths.sort(), ["/api/v1/retrieve", "/api/v1/trajectories"]);
});

test("a process that has nothing else to do sends its last runs and ends", async () => {
  const name = randomUUID();
  const { code, output } = await runProcess(["", name, "3"], { ERL_SPOOL: makeFolder() });

  assert.deepEqual([code, output], [0, ""]);
  for (const number of [0, 1, 2]) assert.equal((await listRecorded(`external_id=${name} ${number}`)).length, 1);
});

for (const ending of ["", "exits"]) {
  test(`a process does not wait for an ERL that is slow: ${ending || "ends"}`, async () => {
    const { url } = await serve((request, response) => {
      if (request.url?.endsWith("/retrieve")) response.end('{"context": "", "items": []}');
    });
    const [spool, name] = [makeFolder(), randomUUID()];
    const env = { ERL_SPOOL: spool, ERL_URL: url };
    const starting = await time(() => runProcess([ending, name, "0"], env));
    const elapsed = await time(async () => assert.equal((await runProcess([ending, name], env)).code, 0));

    assert.ok(elapsed - starting < BUDGET_MS + SLACK_MS, `${elapsed} ms`);
    assert.match(readdirSync(spool, { recursive: true }).join(), /\.json/);
  });
}

test("agents that are killed leave runs for one that lives", async () => {
  const [root, names] = [makeFolder(), makeNames(3)];
  const env = { ERL_SPOOL: root };
  const ends = await Promise.all(names.map((name) => runProcess(["killed", name, "5"], env)));
  assert.deepEqual(
    ends.map(({ code }) => code),
    [null, null, null],
  );

  const folder = join(root, readdirSync(root)[0] ?? "");
  const last = makeClient({ spool: folder });
  for (const name of names) {
    for (let number = 0; number < 5; number += 1) await recorded(last, `${name} ${number}`);
  }
});

test("processes that send at the same time record each run once", async () => {
  const [spool, names] = [makeFolder(), makeNames(20)];
  await runAgent(new ERL({ url: CLOSED_PORT, spool, warn: () => undefined }), names);

  const clients = [1, 2, 3].map(() => makeClient({ spool }));
  assert.deepEqual(await Promise.all(clients.map((client) => client.flush(60))), [true, true, true]);

  for (const name of names) assert.equal((await listRecorded(`external_id=${name}`)).length, 1);
  assert.deepEqual(readdirSync(join(spool, "refused")), []);
});

test("a lock that a dead process left is taken over", async () => {
  const spool = makeFolder();
  const { pid } = spawn(process.execPath, ["--version"]).on("error", assert.fail);
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  writeFileSync(join(spool, "sending.node"), `${pid} of another`);

  const erl = makeClient({ spool });
  const [name = ""] = makeNames(1);
  await runAgent(erl, [name]);
  await recorded(erl, name);
});

test("a run whose answer was lost is recorded once", async () => {
  const [spool, name] = [makeFolder(), randomUUID()];
  await runAgent(new ERL({ url: CLOSED_PORT, spool, warn: () => undefined }), [name]);
  const [file = ""] = readdirSync(spool).filter((file) => file.endsWith(".json"));
  const response = await fetch(`${process.env.ERL_URL}/api/v1/trajectories`, {
    method: "POST",
    headers: {
      Authorization: `Bearer ${process.env.ERL_API_KEY}`,
      "Content-Type": "application/json",
      "Idempotency-Key": file.slice(21, -5),
    },
    body: readFileSync(join(spool, file)),
  });
  assert.equal(response.status, 201);

  await recorded(makeClient({ spool }), name);
});

test("a run that ERL refuses, or that cannot be read, is set aside and the next one recorded", async () => {
  const [spool, name] = [makeFolder(), randomUUID()];
  writeFileSync(join(spool, `${"0".repeat(20)}-${randomUUID()}.json`), '{"task": "one", "colour": "red"}');
  writeFileSync(join(spool, `${"0".repeat(20)}-${randomUUID()}.json`), "not JSON");
  mkdirSync(join(spool, "refused"));
  const warnings: string[] = [];
  const erl = makeClient({ spool, warn: (line) => warnings.push(line) });
  await runAgent(erl, [name]);

  await recorded(erl, name);
  const refused = readdirSync(join(spool, "refused"));
  assert.equal(refused.length, 4);
  const reasons = refused
    .filter((file) => file.endsWith(".txt"))
    .map((file) => readFileSync(join(spool, "refused", file), "utf8"));
  assert.match(reasons.join(), /colour/);
  assert.match(reasons.join(), /cannot be read/);
  assert.match(warnings.join(), /ERL refused a run/);
});

test("runs are sent if the disk cannot be written", async () => {
  const [spool, name] = [join(makeFolder(), "file"), randomUUID()];
  writeFileSync(spool, "in the way");
  const erl = makeClient({ spool, warn: () => undefined });
  await runAgent(erl, [name]);

  assert.equal(await erl.flush(60), true);
  assert.equal((await listRecorded(`external_id=${name}`)).length, 1);
});

test("a strict client says that ERL is away, or refuses its key", async () => {
  const away = new ERL({ url: CLOSED_PORT, strict: true, spool: makeFolder() });
  await assert.rejects(
    away.run("work", () => undefined),
    Unavailable,
  );
  const stranger = makeClient({ apiKey: "erl_live_x", strict: true });
  await assert.rejects(
    stranger.run("work", () => undefined),
    (error) => error instanceof Refused && error.status === 401,
  );
  assert.equal(await makeClient({ strict: true }).run("work", () => 42), 42);
});

test("a strict client says that a proxy refuses what is too large", async () => {
  const { url } = await serve((_, response) => void response.writeHead(413).end("<h1>413 Request Entity Too Large</h1>"));
  await assert.rejects(
    new ERL({ url, strict: true, spool: makeFolder() }).run("work", () => undefined),
    (error) => error instanceof Refused && error.status === 413 && error.message.includes("client_max_body_size"),
  );
});

test("an agent without a key goes on, and a strict one is told", async () => {
  const key = process.env.ERL_API_KEY;
  delete process.env.ERL_API_KEY;
  try {
    const warnings: string[] = [];
    const erl = new ERL({ spool: makeFolder(), warn: (line) => warnings.push(line) });
    assert.equal(await erl.run("work", (run) => run.context), "");
    assert.match(warnings.join(), /Set ERL_API_KEY/);
    assert.throws(() => new ERL({ strict: true }), ERLError);
  } finally {
    process.env.ERL_API_KEY = key;
  }
});
