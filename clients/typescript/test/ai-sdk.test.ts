/** Agents of the AI SDK, given lessons and captured by the middleware. */

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";

import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import * as ai7 from "ai";
import * as ai6 from "ai-6";
import { createOpenAICompatible as createOpenAICompatible2 } from "openai-compatible-2";
import { z } from "zod";

import { erlMiddleware } from "erl-client/ai-sdk";

import { actions, ANSWER, errors, LESSON, LOOK, makeClient, PROVIDER, recorded, SAY, TASK, test } from "./support.js";

const erl = makeClient();
const bodies: string[] = []; // of the requests
const note: typeof fetch = (url, init) => {
  bodies.push(String(init?.body));
  return fetch(url, init);
};
const provider = { name: "scripted", baseURL: `${PROVIDER}/v1`, apiKey: "k", includeUsage: true, fetch: note };
const middleware = erlMiddleware(erl);
type Ai = typeof ai7;
type Model = ReturnType<Ai["wrapLanguageModel"]>;

const models7 = createOpenAICompatible(provider);
const models6 = createOpenAICompatible2(provider);
const wrap7 = (name: string): Model => ai7.wrapLanguageModel({ model: models7(name), middleware });
const wrap6 = (name: string): Model => ai6.wrapLanguageModel({ model: models6(name), middleware }) as unknown as Model;

for (const [version, ai, wrap] of [
  ["AI SDK 7", ai7, wrap7],
  ["AI SDK 6", ai6 as unknown as Ai, wrap6],
] as const) {
  const model = wrap("scripted");
  const get_reservation = ai.tool({
    description: "Reads it.",
    inputSchema: z.object({ id: z.string() }),
    execute: async () => ({ cabin: "basic economy" }),
  });
  const agent = { model, tools: { get_reservation }, stopWhen: ai.stepCountIs(5), maxRetries: 0 };

  test(`${version}: an agent is given lessons and becomes one run`, async () => {
    bodies.length = 0;
    const run = await erl.run(TASK, { family: "airline" }, async (run) => {
      const result = await ai.generateText({ ...agent, system: "Be kind.", prompt: TASK });
      assert.equal(result.text, ANSWER);
      assert.deepEqual(
        bodies.map((body) => new RegExp(`${LESSON}[^]*Be kind`).test(body)),
        [true, true],
      );
      run.success({ source: "test" });
      return run;
    });

    const stored = await recorded(erl, run.externalId);
    assert.deepEqual(actions(stored), [LOOK, SAY]);
    assert.deepEqual(
      [stored.steps[1]?.thought, stored.steps[1]?.observation],
      ["I look it up.", '{"cabin":"basic economy"}'],
    );
    assert.deepEqual([stored.tokens, stored.model, stored.system_prompt], [30, "scripted-1", "Be kind."]);
    assert.deepEqual(
      (stored.tools as { name: string }[]).map((tool) => tool.name),
      [LOOK.name],
    );
  });

  test(`${version}: a streamed agent becomes one run`, async () => {
    const run = await erl.run(TASK, { family: "airline" }, async (run) => {
      assert.equal((await ai.streamText({ ...agent, prompt: TASK }).steps).at(-1)?.text, ANSWER);
      return run;
    });

    const stored = await recorded(erl, run.externalId);
    assert.deepEqual(actions(stored), [LOOK, SAY]);
    assert.equal(stored.steps[1]?.thought, "I look it up.");
    assert.deepEqual([stored.tokens, stored.model], [30, "scripted-1"]);
  });

  test(`${version}: a run goes on after its handler has returned the stream`, async () => {
    const handler = async (): Promise<[string, Response]> => {
      const run = await erl.begin(TASK, { family: "airline" });
      const bound = {
        ...agent,
        model: ai.wrapLanguageModel({ model: model as never, middleware: erlMiddleware(erl, { run }) }),
      };
      const onFinish = (): Promise<void> => erl.end(run);
      return [run.externalId, ai.streamText({ ...bound, prompt: TASK, onFinish }).toTextStreamResponse()];
    };
    const [externalId, response] = await handler();
    assert.equal(await response.text(), `I look it up.${ANSWER}`);

    assert.deepEqual(actions(await recorded(erl, externalId)), [LOOK, SAY]);
  });

  test(`${version}: an error of a tool is an error of its step`, async () => {
    const failing = ai.tool({
      inputSchema: z.object({ id: z.string() }),
      execute: async (): Promise<string> => {
        throw new Error("no such reservation");
      },
    });
    const run = await erl.run(TASK, async (run) => {
      await ai.generateText({ ...agent, tools: { get_reservation: failing }, prompt: TASK });
      return run;
    });

    const stored = await recorded(erl, run.externalId);
    assert.deepEqual(actions(stored), [LOOK, SAY]);
    assert.match(stored.steps[1]?.error ?? "", /^(Error: )?no such reservation$/);
  });

  test(`${version}: an error of the provider is told and thrown`, async () => {
    const externalId = randomUUID();
    const failing = erl.run(TASK, { externalId }, () =>
      ai.generateText({ ...agent, model: wrap("fails-500"), prompt: TASK }),
    );
    await assert.rejects(failing);

    const stored = await recorded(erl, externalId);
    assert.equal(stored.outcome, "failure");
    assert.match(errors(stored).join(), /It failed/);
  });

  test(`${version}: an error of the provider in a stream is told`, async () => {
    const run = await erl.run(TASK, async (run) => {
      const onError = (): void => undefined;
      await ai.streamText({ ...agent, model: wrap("fails-500"), prompt: TASK, onError }).consumeStream();
      return run;
    });

    assert.match(errors(await recorded(erl, run.externalId)).join(), /It failed/);
  });

  test(`${version}: a stream that breaks off is captured as far as it came`, async () => {
    const run = await erl.run(TASK, async (run) => {
      const onError = (): void => undefined;
      await ai.streamText({ ...agent, model: wrap("breaks-off"), prompt: TASK, onError }).consumeStream();
      return run;
    });

    assert.match(JSON.stringify(actions(await recorded(erl, run.externalId))), /Hello, how/);
  });

  test(`${version}: calls outside of a run are left alone`, async () => {
    bodies.length = 0;

    assert.equal((await ai.generateText({ model, prompt: TASK })).text, ANSWER);
    assert.doesNotMatch(bodies.join(), new RegExp(LESSON));
  });
}
