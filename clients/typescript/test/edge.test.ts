/** The client in an edge runtime, which has neither a disk nor a process, nor any module of Node's. */

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { createContext, SourceTextModule, type Context, type Module } from "node:vm";

import { EdgeRuntime } from "edge-runtime";
import type * as aiSdk from "erl-client/ai-sdk";
import type * as edge from "erl-client";

import { ANSWER, LESSON, listRecorded, serve, TASK, test, time } from "./support.js";

const destination = { url: process.env.ERL_URL ?? "", apiKey: process.env.ERL_API_KEY ?? "", budgetSeconds: 60 };

/** Load what an edge runtime imports. Each module has to be one of the package's files. */
async function load<T>(condition: string, globals: Context): Promise<T> {
  const { exports } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
  const modules = new Map<string, Module>();
  const open = (url: URL): Module => {
    const module =
      modules.get(url.href) ??
      new SourceTextModule(readFileSync(url, "utf8"), { context: globals, identifier: url.href });
    modules.set(url.href, module);
    return module;
  };
  const [path, target] = condition.split(" ") as [string, string];
  const entry = open(new URL(exports[path][target], new URL("../", import.meta.url)));
  await entry.link((specifier, from) => {
    assert.match(specifier, /^\.\//);
    return open(new URL(specifier, from.identifier));
  });
  await entry.evaluate();
  return entry.namespace as T;
}

const context = new EdgeRuntime().context as Context;

test("an edge runtime gets the file without Node's modules", async () => {
  const { exports } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
  const conditions = ["edge-light", "workerd", "browser", "default"];
  assert.deepEqual(new Set(conditions.map((name) => exports["."][name])), new Set(["./dist/edge.js"]));
  assert.equal("process" in context || "Buffer" in context, false);
});

test("a run on the edge is given lessons, and sent before its block ends", async () => {
  const { ERL } = await load<typeof edge>(". edge-light", context);
  const erl = new ERL(destination);
  const externalId = randomUUID();

  const context_ = await erl.run(TASK, { family: "airline", externalId }, (run) => {
    run.success();
    return run.context;
  });

  assert.match(context_, new RegExp(LESSON));
  assert.equal((await listRecorded(`external_id=${externalId}`))[0]?.outcome, "success");
});

test("the platform may wait for the sending instead", async () => {
  const { ERL } = await load<typeof edge>(". edge-light", context);
  const promises: Promise<unknown>[] = [];
  const erl = new ERL({ ...destination, waitUntil: (promise) => promises.push(promise) });
  const externalId = randomUUID();

  await erl.run(TASK, { externalId }, () => undefined);

  assert.deepEqual(await Promise.all(promises), [true]);
  assert.equal((await listRecorded(`external_id=${externalId}`)).length, 1);
});

test("the edge waits two seconds for an ERL that is slow, and sends its run with the next", async () => {
  const { ERL } = await load<typeof edge>(". edge-light", context);
  let isSlow = true;
  const bodies: string[] = [];
  const { url } = await serve((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      if (isSlow) return void response.writeHead(503).end();
      bodies.push(Buffer.concat(chunks).toString());
      response.end('{"id": "1", "context": "", "items": []}');
    });
  });
  const erl = new ERL({ url, apiKey: "k", warn: () => undefined });
  assert.ok((await time(() => erl.run("one", () => undefined))) < 5_000);
  isSlow = false;
  await erl.run("two", () => undefined);

  assert.equal(await erl.flush(10), true);
  assert.deepEqual(
    bodies
      .map((body) => JSON.parse(body))
      .filter((body) => body.external_id)
      .map((body) => body.task),
    ["one", "two"],
  );
});

test("without AsyncLocalStorage a run is named", async () => {
  const { ERL, currentRun } = await load<typeof edge>(". workerd", context);
  const { erlMiddleware } = await load<typeof aiSdk>("./ai-sdk default", context);
  const erl = new ERL(destination);
  const externalId = randomUUID();

  await erl.run(TASK, { family: "airline", externalId }, async (run) => {
    assert.equal(currentRun(), undefined);
    const create = async (_: object): Promise<object> => ({
      choices: [{ message: { role: "assistant", content: ANSWER } }],
    });
    const sdk = erl.wrap({ chat: { completions: { create } } }, { run });
    await sdk.chat.completions.create({ messages: [{ role: "user", content: TASK }] });
    const { prompt } = await erlMiddleware(erl, { run }).transformParams({ params: { prompt: [] } });
    assert.match(JSON.stringify(prompt), new RegExp(LESSON));
  });

  const [run] = await listRecorded(`external_id=${externalId}`);
  assert.equal((run as unknown as { step_count: number }).step_count, 2);
});

test("with AsyncLocalStorage a run is found", async () => {
  const { AsyncLocalStorage } = await import("node:async_hooks");
  const globals = createContext(
    new EdgeRuntime({ extend: (runtime) => Object.assign(runtime, { AsyncLocalStorage }) }).context,
  );
  const { ERL, currentRun } = await load<typeof edge>(". edge-light", globals);

  await new ERL(destination).run("work", async (run) => {
    await Promise.resolve();
    assert.equal(currentRun(), run);
  });
});
