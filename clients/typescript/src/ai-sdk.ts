/**
 * A middleware for the AI SDK, which puts lessons into the instructions and captures what models and tools say.
 *
 *     const model = wrapLanguageModel({ model: openai("gpt-4o-mini"), middleware: erlMiddleware(erl) });
 *     await erl.run(task, () => generateText({ model, prompt: task, tools }));
 */

import { describeError, isObject, type Json } from "./api.js";
import type { ModelCall } from "./calls.js";
import type { Client } from "./client.js";
import { readMessages } from "./messages.js";
import { asPlain, asString } from "./plain.js";
import type { Run } from "./run.js";
import { countTokens } from "./wrap.js";

/** Fits the types of AI SDK 6 and 7, which differ only in what is not read here. */
export interface ErlMiddleware {
  specificationVersion: any;
  transformParams(options: { params: any }): Promise<any>;
  wrapGenerate(options: { doGenerate: () => PromiseLike<any>; params: any; model: any }): Promise<any>;
  wrapStream(options: { doStream: () => PromiseLike<any>; params: any; model: any }): Promise<any>;
}

/**
 * Return a middleware that works in the run that a call is made in, and leaves other calls alone.
 *
 * `run` names the run where it cannot be known: if your agent goes on after its block, or without AsyncLocalStorage.
 */
export function erlMiddleware(erl: Client, options: { run?: Run } = {}): ErlMiddleware {
  const findRun = (): Run | undefined => options.run ?? erl.currentRun();
  return {
    specificationVersion: "v4",

    async transformParams({ params }) {
      const run = findRun();
      if (!run?.context || !Array.isArray(params.prompt)) return params;
      return { ...params, prompt: addLessons(params.prompt, run) };
    },

    async wrapGenerate({ doGenerate, params, model }) {
      const [run, call] = [findRun(), readParams(params, model)];
      try {
        const result = await doGenerate();
        add(run, call, () => readParts(result.content, result));
        return result;
      } catch (error) {
        add(run, call, () => ({ error: describeError(error) }));
        throw error;
      }
    },

    async wrapStream({ doStream, params, model }) {
      const [run, call] = [findRun(), readParams(params, model)];
      try {
        const result = await doStream();
        return run ? { ...result, stream: watchParts(result.stream, run, call) } : result;
      } catch (error) {
        add(run, call, () => ({ error: describeError(error) }));
        throw error;
      }
    },
  };
}

function addLessons(prompt: Json[], run: Run): Json[] {
  const [first, ...rest] = prompt;
  if (first?.role !== "system") return [{ role: "system", content: run.context }, ...prompt];
  const content = String(first.content);
  return content.includes(run.context) ? prompt : [{ ...first, content: `${run.context}\n\n${content}` }, ...rest];
}

/** Add a call to its run. Never throws: the agent gets its answer whatever it looks like. */
function add(run: Run | undefined, call: ModelCall, readEnd: () => Partial<ModelCall>): void {
  try {
    run?.calls.add({ ...call, ...readEnd() });
  } catch {
    // Not captured.
  }
}

function readParams(params: any, model: any): ModelCall {
  const call: ModelCall = { request: [], reply: [], error: "", model: "", tools: [], tokens: 0 };
  try {
    call.model = String(model?.modelId ?? "");
    call.request = readMessages(params.prompt ?? []);
    call.tools = (params.tools ?? []).map(({ name, description, inputSchema }: any) =>
      asPlain({ name, description, parameters: inputSchema }),
    );
  } catch {
    // Captured as far as it could be read.
  }
  return call;
}

function readParts(parts: unknown, about: { usage?: unknown; response?: { modelId?: string } }): Partial<ModelCall> {
  const model = about.response?.modelId;
  const content = (asPlain(parts) as Json[]).filter((part) => part.type !== "source");
  const reply = content.length ? readMessages([{ role: "assistant", content }]) : [];
  return { reply, tokens: countTokens(about.usage), ...(model ? { model } : {}) };
}

/** Return a stream with the same parts, which adds the call to its run when it has ended, or the run has. */
function watchParts(stream: ReadableStream<unknown>, run: Run, call: ModelCall): ReadableStream<unknown> {
  const parts: Json[] = [];
  const end = run.watch(() => add(run, call, () => readStream(parts)));
  const watching = new TransformStream<unknown, unknown>({
    transform(part, controller) {
      controller.enqueue(part);
      if (isObject(part)) parts.push(part);
    },
    flush: end,
  });
  return stream.pipeThrough(watching);
}

function readStream(parts: readonly Json[]): Partial<ModelCall> {
  const content: Json[] = [];
  const about: { usage?: unknown; response?: { modelId?: string } } = {};
  let error = "";
  for (const part of parts) {
    const kind = /^(text|reasoning)-delta$/.exec(String(part.type))?.[1];
    const last = content.at(-1);
    if (kind && last?.type === kind) last.text = `${last.text}${part.delta}`;
    else if (kind) content.push({ type: kind, text: String(part.delta) });
    else if (part.type === "tool-call" || part.type === "tool-result" || part.type === "file") content.push(part);
    else if (part.type === "finish") about.usage = part.usage;
    else if (part.type === "response-metadata" && part.modelId) about.response = { modelId: String(part.modelId) };
    else if (part.type === "error") error = asString(part.error);
  }
  return { ...readParts(content, about), error };
}
