/** Calls of the real SDKs of OpenAI and Anthropic, captured by the run they are made in. */

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";

import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import OpenAI6 from "openai-6";

import type { Run } from "erl-client";

import { actions, ANSWER, errors, LOOK, makeClient, PROVIDER, recorded, SAY, TASK, test } from "./support.js";

const erl = makeClient();
const parameters = { type: "object", properties: { id: { type: "string" } } };
const tools = [{ type: "function" as const, function: { name: LOOK.name, description: "Reads it.", parameters } }];
const question = { role: "user" as const, content: TASK };
const anthropic = erl.wrap(erl.wrap(new Anthropic({ baseURL: PROVIDER, apiKey: "k", maxRetries: 0 })));
const anthropicTools = [{ name: LOOK.name, input_schema: { ...parameters, type: "object" as const } }];
const model = "scripted";

for (const [version, Sdk] of [
  ["openai 7", OpenAI],
  ["openai 6", OpenAI6 as unknown as typeof OpenAI],
] as const) {
  const openai = new Sdk({ baseURL: `${PROVIDER}/v1`, apiKey: "k", maxRetries: 0 });
  assert.equal(erl.wrap(openai), openai);

  test(`a loop of ${version} becomes one run`, async () => {
    const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: "system", content: "Be kind." }, question];
    const run = await erl.run(TASK, async (run) => {
      const first = await openai.chat.completions.create({ model, messages, tools });
      messages.push(first.choices[0]!.message, { role: "tool", tool_call_id: "call_2_0", content: "basic economy" });
      await openai.chat.completions.create({ model, messages, tools });
      run.success();
      return run;
    });

    const stored = await recorded(erl, run.externalId);
    assert.deepEqual(actions(stored), [LOOK, SAY]);
    assert.deepEqual([stored.steps[1]?.thought, stored.steps[1]?.observation], ["I look it up.", "basic economy"]);
    assert.deepEqual([stored.tokens, stored.model, stored.tools], [30, "scripted-1", tools]);
    assert.equal(stored.system_prompt, "Be kind.");
  });

  test(`streams and helpers of ${version} are captured`, async () => {
    const run = await erl.run(TASK, async (run) => {
      const parts = [];
      const options = { stream_options: { include_usage: true } };
      const stream = await openai.chat.completions.create({
        model,
        messages: [question],
        tools,
        stream: true,
        ...options,
      });
      for await (const chunk of stream) parts.push(chunk.choices[0]?.delta.content ?? "");
      assert.equal(parts.join(""), "I look it up.");
      const helper = openai.chat.completions.stream({ model, messages: [{ role: "user", content: "Again." }] });
      assert.equal(await helper.finalContent(), ANSWER);
      const parsed = await openai.chat.completions.parse({
        model,
        messages: [{ role: "user", content: "Once more." }],
      });
      assert.equal(parsed.choices[0]?.message.content, ANSWER);
      return run;
    });

    const stored = await recorded(erl, run.externalId);
    assert.deepEqual(actions(stored), [LOOK, SAY, SAY]);
    assert.equal(stored.tokens, 30);
  });

  test(`${version}: responses are captured, whole and streamed`, async () => {
    const run = await erl.run(TASK, async (run) => {
      const whole = await openai.responses.create({ model, input: TASK });
      assert.equal(whole.output_text, ANSWER);
      const types = [];
      for await (const event of await openai.responses.create({ model, input: "Again.", stream: true }))
        types.push(event.type);
      assert.equal(types.at(-1), "response.completed");
      return run;
    });

    const stored = await recorded(erl, run.externalId);
    assert.deepEqual(actions(stored), [SAY, SAY]);
    assert.equal(stored.tokens, 30);
  });

  test(`${version}: tools that its helper runs are captured`, async () => {
    const run = await erl.run(TASK, async (run) => {
      const look = {
        name: LOOK.name,
        description: "Reads it.",
        parse: JSON.parse,
        parameters,
        function: () => "basic economy",
      };
      const runner = openai.chat.completions.runTools({
        model,
        messages: [question],
        tools: [{ type: "function", function: look }],
      });
      assert.equal(await runner.finalContent(), ANSWER);
      return run;
    });

    assert.deepEqual(actions(await recorded(erl, run.externalId)), [LOOK, SAY]);
  });

  test(`${version}: a call that failed is told and thrown`, async () => {
    const externalId = randomUUID();
    const failing = erl.run(TASK, { externalId }, () =>
      openai.chat.completions.create({ model: "fails-429", messages: [question] }),
    );
    await assert.rejects(failing, Sdk.RateLimitError);

    const stored = await recorded(erl, externalId);
    assert.equal(stored.outcome, "failure");
    assert.match(errors(stored).at(-1) ?? "", /^RateLimitError: 429/);
  });

  test(`${version}: a call that the agent stops leaves an unknown outcome`, async () => {
    const externalId = randomUUID();
    const signal = AbortSignal.abort();
    const stopping = erl.run(TASK, { externalId }, () =>
      openai.chat.completions.create({ model, messages: [question] }, { signal }),
    );
    await assert.rejects(stopping, Sdk.APIUserAbortError);

    assert.equal((await recorded(erl, externalId)).outcome, "unknown");
  });

  test(`${version}: a failed call that is asked again leaves no error`, async () => {
    const run = await erl.run(TASK, async (run) => {
      await openai.chat.completions.create({ model: "fails-500", messages: [question] }).catch(() => undefined);
      await openai.chat.completions.create({ model, messages: [question] });
      return run;
    });

    const stored = await recorded(erl, run.externalId);
    assert.deepEqual([errors(stored), actions(stored)], [[], [SAY]]);
  });

  test(`${version}: raw responses stay unread`, async () => {
    await erl.run(TASK, async () => {
      const raw = await openai.chat.completions.create({ model, messages: [question] }).asResponse();
      assert.equal(((await raw.json()) as OpenAI.ChatCompletion).choices[0]?.message.content, ANSWER);
      const both = await openai.chat.completions.create({ model, messages: [question] }).withResponse();
      assert.equal(both.response.status, 200);
      assert.equal(both.data.choices[0]?.message.content, ANSWER);
    });
  });

  test(`${version}: a stream that breaks off is told as far as it came, and thrown`, async () => {
    const externalId = randomUUID();
    const breaking = erl.run(TASK, { externalId }, async () => {
      const request = { model: "breaks-off", messages: [question], stream: true as const };
      for await (const _ of await openai.chat.completions.create(request));
    });
    await assert.rejects(breaking);

    const stored = await recorded(erl, externalId);
    assert.match(JSON.stringify(actions(stored)), /Hello, how/);
    assert.equal(errors(stored).length, 2); // of the call and of the run
  });

  test(`${version}: a stream that is left early is captured as far as it came`, async () => {
    const run = await erl.run(TASK, async (run) => {
      for await (const chunk of await openai.chat.completions.create({ model, messages: [question], stream: true })) {
        if (chunk.choices[0]?.delta.content) break;
      }
      return run;
    });

    const [said] = actions(await recorded(erl, run.externalId)) as { arguments: { content: string } }[];
    assert.equal(said?.arguments.content, ANSWER.slice(0, 5));
  });
}

test("a loop of Anthropic's client becomes one run", async () => {
  const run = await erl.run(TASK, async (run) => {
    const messages: Anthropic.MessageParam[] = [question];
    const first = await anthropic.messages.create({ model, max_tokens: 9, messages, tools: anthropicTools });
    messages.push({ role: "assistant", content: first.content });
    const result = { type: "tool_result" as const, tool_use_id: "toolu_1_0", content: "no such thing", is_error: true };
    messages.push({ role: "user", content: [result] });
    await anthropic.messages.create({ model, max_tokens: 9, messages, tools: anthropicTools });
    run.failure({ reason: "Basic economy." });
    return run;
  });

  const stored = await recorded(erl, run.externalId);
  assert.deepEqual(actions(stored), [LOOK, SAY]);
  assert.equal(stored.steps[1]?.thought, "I look it up.");
  assert.deepEqual(errors(stored), ["no such thing", "Basic economy."]);
  assert.deepEqual([stored.tokens, stored.tools], [30, anthropicTools]);
});

test("streams and helpers of Anthropic's client are captured", async () => {
  const run = await erl.run(TASK, async (run) => {
    const types = [];
    const request = { model, max_tokens: 9, tools: anthropicTools };
    for await (const event of await anthropic.messages.create({ ...request, messages: [question], stream: true })) {
      types.push(event.type);
    }
    assert.equal(types.at(-1), "message_stop");
    const helper = anthropic.messages.stream({ model, max_tokens: 9, messages: [{ role: "user", content: "Again." }] });
    assert.equal(await helper.finalText(), ANSWER);
    return run;
  });

  const stored = await recorded(erl, run.externalId);
  assert.deepEqual(actions(stored), [LOOK, SAY]);
  assert.equal(stored.tokens, 30);
});

test("calls outside of a run are left alone, also those of another task at the same time", async () => {
  const openai = erl.wrap(new OpenAI({ baseURL: `${PROVIDER}/v1`, apiKey: "k" }));
  const say = (content: string): Promise<unknown> =>
    openai.chat.completions.create({ model, messages: [{ role: "user", content }] });
  await say("Outside");
  const work = (name: string): Promise<Run> =>
    erl.run(name, async (run) => {
      await say(name);
      return run;
    });
  const [one, two] = await Promise.all([work("One"), work("Two"), say("Beside")]);

  assert.equal((await recorded(erl, one.externalId)).steps[0]?.observation, "One");
  assert.equal((await recorded(erl, two.externalId)).steps[0]?.observation, "Two");
});

test("a client can be bound to a run", async () => {
  const openai = new OpenAI({ baseURL: `${PROVIDER}/v1`, apiKey: "k" });
  const run = await erl.begin(TASK);
  await erl.wrap(openai.withOptions({}), { run }).chat.completions.create({ model, messages: [question] });
  await erl.end(run);

  assert.deepEqual(actions(await recorded(erl, run.externalId)), [SAY]);
});

test("what cannot be wrapped comes back as it was", () => {
  const warnings: string[] = [];
  const thing = { chat: "no" };

  assert.equal(makeClient({ warn: (line) => warnings.push(line) }).wrap(thing), thing);
  assert.match(warnings.join(), /Calls to Object cannot be captured/);
});
