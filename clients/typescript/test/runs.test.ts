/** A run of an agent, from the lessons it is given to the record of how it went. */

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";

import { currentRun, type Run } from "erl-client";

import { actions, errors, LESSON, listRecorded, LOOK, makeClient, recorded, SAY, TASK, test } from "./support.js";

const MESSAGES = [
  { role: "system", content: "You are an airline agent." },
  { role: "user", content: TASK },
  {
    role: "assistant",
    content: "I look it up.",
    tool_calls: [{ id: "c1", type: "function", function: { name: LOOK.name, arguments: '{"id": "EHGLP3"}' } }],
  },
  { role: "tool", tool_call_id: "c1", content: "basic economy" },
  { role: "assistant", content: "It cannot be cancelled." },
];
const AI_SDK_MESSAGES = [
  { role: "user", content: [{ type: "text", text: TASK }] },
  {
    role: "assistant",
    content: [
      { type: "reasoning", text: "Which fare?" },
      { type: "tool-call", toolCallId: "c1", toolName: LOOK.name, input: LOOK.arguments },
    ],
  },
  {
    role: "tool",
    content: [
      {
        type: "tool-result",
        toolCallId: "c1",
        toolName: LOOK.name,
        output: { type: "error-text", value: "no such id" },
      },
    ],
  },
];

const silent = (): void => undefined;
const draft = (): Promise<Run> => makeClient({ warn: silent }).begin("");

test("a run and those that it calls are of its user", async () => {
  const erl = makeClient();
  const [outer, inner] = await erl.run(TASK, { userId: "ana" }, async (outer) => [
    outer,
    await erl.run("Look the fare up", (inner) => inner),
  ]);

  assert.equal((await recorded(erl, outer.externalId)).user_id, "ana");
  assert.equal((await recorded(erl, inner.externalId)).user_id, "ana");
});

test("a run is given lessons and recorded with its outcome", async () => {
  const erl = makeClient();
  const run = await erl.run(TASK, { family: "airline", tags: ["test"] }, (run) => {
    run.messages(MESSAGES);
    run.success({ score: 1, source: "test" });
    return run;
  });

  assert.match(run.context, new RegExp(LESSON));
  assert.equal(run.lessons.filter((lesson) => lesson.injected).length, 1);
  const stored = await recorded(erl, run.externalId);
  assert.equal(stored.retrieval_id, run.retrievalId);
  assert.deepEqual([stored.task, stored.task_id, stored.tags], [TASK, "airline", ["test"]]);
  assert.deepEqual([stored.outcome, stored.score, stored.outcome_source], ["success", 1, "test"]);
  assert.deepEqual(actions(stored), [LOOK, SAY]);
  assert.equal(stored.steps[1]?.observation, "basic economy");
});

test("what a block returns is returned, and what it throws is recorded and thrown", async () => {
  const erl = makeClient();
  const externalId = randomUUID();
  assert.equal(await erl.run(TASK, () => 42), 42);

  const failing = erl.run(TASK, { externalId }, (run) => {
    run.step({ tool: LOOK.name, arguments: LOOK.arguments, observation: { cabin: "basic" } });
    throw new RangeError("fare");
  });
  await assert.rejects(failing, RangeError);

  const stored = await recorded(erl, externalId);
  assert.equal(stored.outcome, "failure");
  assert.deepEqual(stored.steps[0]?.action, LOOK);
  assert.equal(stored.steps[0]?.observation, '{"cabin":"basic"}');
  assert.deepEqual(errors(stored), ["RangeError: fare"]);
});

test("an aborted run has no known outcome", async () => {
  const erl = makeClient();
  const externalId = randomUUID();

  await assert.rejects(erl.run(TASK, { externalId }, () => AbortSignal.abort().throwIfAborted()));

  assert.equal((await recorded(erl, externalId)).outcome, "unknown");
});

test("steps and a reason follow the messages", async () => {
  const erl = makeClient();
  const { externalId } = await erl.run(TASK, (run) => {
    run.messages(MESSAGES);
    run.step({ tool: "refund", arguments: "all", thought: "Try it.", observation: "done", error: "too late" });
    run.failure({ reason: "It was too late.", source: "human" });
    return run;
  });

  const stored = await recorded(erl, externalId);
  const refund = stored.steps.find((step) => step.action?.name === "refund");
  assert.deepEqual(refund?.action?.arguments, { input: "all" });
  assert.deepEqual([refund?.thought, refund?.error], ["Try it.", "too late\ndone"]);
  assert.equal(stored.steps.at(-1)?.error, "It was too late.");
  assert.deepEqual([stored.outcome, stored.outcome_source], ["failure", "human"]);
});

test("messages of the AI SDK are read", async () => {
  const erl = makeClient();
  const { externalId } = await erl.run("", (run) => {
    run.messages(AI_SDK_MESSAGES);
    return run;
  });

  const stored = await recorded(erl, externalId);
  assert.equal(stored.task, TASK);
  assert.deepEqual(actions(stored), [LOOK]);
  assert.deepEqual([stored.steps[1]?.thought, errors(stored)], ["Which fare?", ["no such id"]]);
});

test("messages in no known form are kept as texts", async () => {
  const erl = makeClient();
  const { externalId } = await erl.run(TASK, (run) => {
    run.messages([{ role: "user", content: "Hello" }, { weather: "fine" }, "?"]);
    return run;
  });

  const said = (await recorded(erl, externalId)).steps.map((step) => step.observation).join("\n");
  assert.match(said, /Hello[^]*{"weather":"fine"}[^]*\?/);
});

test("the bytes of images are named, not sent", async () => {
  const run = await draft();
  const data = "iVBORw0KGgo=".repeat(200);
  run.messages([
    { role: "user", content: [{ type: "image_url", image_url: { url: `data:image/png;base64,${data}` } }] },
    { role: "user", content: [{ type: "image", source: { type: "base64", media_type: "image/png", data } }] },
    { role: "user", content: [{ type: "file", mediaType: "image/png", data: new Uint8Array(9) }] },
  ]);

  const body = JSON.stringify(await run.body());
  assert.equal(body.match(/image\/png, 1,800 bytes/g)?.length, 2);
  assert.match(body, /\[file image\/png\]/);
});

test("a run inside another is its child, and recorded after it", async () => {
  const erl = makeClient();
  const [outer, inner, independent] = await erl.run("outer", async (outer) => {
    await Promise.resolve();
    const inner = await erl.run("inner", (run) => run);
    assert.equal(currentRun(), outer);
    return [outer, inner, await erl.run("independent", { parentId: null }, (run) => run)];
  });

  const parent = await recorded(erl, outer.externalId);
  assert.equal((await recorded(erl, inner.externalId)).parent_id, parent.id);
  assert.equal((await recorded(erl, independent.externalId)).parent_id, null);
  assert.equal(currentRun(), undefined);
});

test("a run without a block is recorded once, and when the client closes", async () => {
  const erl = makeClient();
  const ended = await erl.begin(TASK);
  erl.within(ended, () => currentRun()?.step({ tool: "work" }));
  await erl.end(ended, new Error("gone"));
  await erl.end(ended);
  const forgotten = await erl.begin(TASK);
  await erl.close();

  assert.deepEqual(errors(await recorded(makeClient(), ended.externalId)), ["Error: gone"]);
  assert.equal((await listRecorded(`external_id=${forgotten.externalId}`))[0]?.outcome, "unknown");
});

test("lessons are had without a run, and an outcome is reported later", async () => {
  const erl = makeClient();
  const { context, retrievalId } = await erl.lessons(TASK, { family: "airline" });
  assert.match(context, new RegExp(LESSON));
  assert.match(retrievalId ?? "", /^[0-9a-f-]{36}$/);
  const { externalId } = await erl.run(TASK, (run) => run);

  assert.equal(await erl.outcome(externalId, { outcome: "success", score: 0.9, source: "human" }), true);

  const stored = await recorded(erl, externalId);
  assert.deepEqual([stored.outcome, stored.score, stored.outcome_source], ["success", 0.9, "human"]);
  const warnings: string[] = [];
  assert.equal(await makeClient({ warn: (line) => warnings.push(line) }).outcome("unknown", { score: 1 }), false);
  assert.match(warnings.join(), /ERL has no run unknown yet/);
});

test("what cannot be judged so is kept in the metadata", async () => {
  for (const score of [1.5, -1, NaN, 0]) {
    const run = await draft();
    run.success({ score, source: "a hunch" as "agent" });

    const body = await run.body();
    assert.deepEqual([body.outcome, body.outcome_source, body.score], ["success", "agent", undefined]);
    assert.deepEqual(body.metadata, { score: String(score), source: "a hunch" });
  }
});

test("values of any kind become plain JSON", async () => {
  const loop: Record<string, unknown> = {};
  loop.self = loop;
  const run = await draft();
  run.metadata = {
    map: new Map([[1, new Set(["s"])]]),
    nan: NaN,
    bytes: new Uint8Array(3),
    nul: "a\0b",
    half: "\ud800",
    date: new Date(0),
    large: 2n,
    act: silent,
    loop,
  };

  assert.deepEqual((await run.body()).metadata, {
    map: { 1: ["s"] },
    nan: "NaN",
    bytes: "[3 bytes]",
    nul: "a\ufffdb",
    half: "\ufffd",
    date: "1970-01-01T00:00:00.000Z",
    large: "2",
    loop: { self: "[…]" },
  });
});

test("an agent goes on whatever its values and its log do", async () => {
  const broken = (): never => {
    throw new Error("broken");
  };
  const erl = makeClient({ warn: broken });
  const { externalId } = await erl.run(TASK, (run) => {
    run.messages([
      { role: "user", content: TASK },
      { role: "assistant", content: { toJSON: broken } },
    ]);
    run.step({ tool: "work", arguments: new Proxy({}, { ownKeys: broken }) });
    run.success({ score: 2 });
    return run;
  });

  const stored = await recorded(erl, externalId);
  assert.deepEqual([stored.outcome, stored.metadata], ["success", { score: "2" }]);
  assert.match(JSON.stringify(stored.steps), /unreadable: Error: broken/);
});

test("a run that is too long is recorded with marks", async () => {
  const erl = makeClient();
  const { externalId } = await erl.run("t".repeat(70_000), { family: "f".repeat(300) }, (run) => {
    const calls = Array.from({ length: 5 }, (_, id) => ({ id: `${id}`, function: { name: "look", arguments: "{}" } }));
    const turn = { role: "assistant", content: null, tool_calls: calls };
    run.messages(
      Array.from({ length: 1_000 }, (_, n) => (n % 2 ? turn : { role: "user", content: `${n}${"é".repeat(5_000)}` })),
    );
    return run;
  });

  const stored = await recorded(erl, externalId);
  assert.match(stored.task, /cut: the whole has 70,000 characters, sha256 [0-9a-f]{16}/);
  const text = JSON.stringify(stored.steps);
  assert.match(text, /\d+ of 1,000 left out here/);
  assert.match(text, /cut: the whole has 5,00\d characters/);
  assert.equal(stored.task_id.length, 200);
});

test("a run of very many steps keeps its beginning and its end", async () => {
  const run = await draft();
  for (let number = 1; number <= 5_000; number += 1) run.step({ observation: `step ${number}` });

  const steps = (await run.body()).steps as { index: number; observation: string }[];
  assert.equal(steps.length, 2_000);
  assert.deepEqual([steps[0]?.observation, steps.at(-1)?.observation], ["step 1", "step 5000"]);
  assert.match(steps[1_333]?.observation ?? "", /3,001 of 5,000 left out/);
  assert.equal(steps.at(-1)?.index, 2_000);
});
