/** Capture the calls that a client of OpenAI or Anthropic makes in an open run, without importing either. */

import { describeError, isObject, type Json } from "./api.js";
import type { ModelCall } from "./calls.js";
import { asPlain } from "./plain.js";
import type { Run } from "./run.js";
import { putTogether, watchStream } from "./streams.js";

// All helpers of the SDKs, such as `parse`, `stream` and `runTools`, call these.
const METHODS = ["chat.completions.create", "responses.create", "messages.create", "beta.messages.create"];
const captured = new WeakSet<object>();

type Method = (this: unknown, request: unknown, ...rest: unknown[]) => unknown;

/** What the SDKs return: a promise that reads the response only when it is asked to. */
interface ApiPromise extends Promise<unknown> {
  _thenUnwrap?(transform: (data: unknown) => unknown): unknown;
  asResponse?(): Promise<unknown>;
}

/**
 * Replace the methods of a client that call a model by ones that also take notes. Once is enough.
 *
 * Throws TypeError if the client has none of them.
 */
export function captureCalls(client: object, findRun: () => Run | undefined): void {
  let isClient = false;
  for (const path of METHODS) {
    const names = path.split(".");
    const name = names.pop() ?? "";
    const resource = names.reduce<unknown>((place, member) => (place as Json | undefined)?.[member], client) as Json;
    const original = resource?.[name];
    if (typeof original !== "function") continue;
    isClient = true;
    if (captured.has(original)) continue;
    const capturing = capture(original as Method, findRun);
    captured.add(capturing);
    resource[name] = capturing;
  }
  if (!isClient) throw new TypeError("It has neither chat.completions, responses nor messages.");
}

function capture(original: Method, findRun: () => Run | undefined): Method {
  return function (this: unknown, request, ...rest) {
    const result = original.call(this, request, ...rest) as ApiPromise;
    const run = findRun();
    return run ? note(run, request, result) : result;
  };
}

/** Add a call to its run, and return what the agent gets. Never throws, whatever the call looks like. */
function note(run: Run, request: unknown, result: ApiPromise): unknown {
  try {
    const call = readRequest(request); // at once: the agent may go on to change its messages
    const add = (answer: unknown, error?: unknown): void => {
      attempt(() => {
        const told = readAnswer(call, answer);
        run.calls.add(error === undefined ? told : { ...told, error: describeError(error) });
      });
    };
    const take = (answer: unknown): unknown => {
      if (!isObject(request) || request.stream !== true) add(answer);
      else {
        const report = (events: unknown[], error?: unknown): void => add(putTogether(events), error);
        attempt(() => watchStream(answer, (end) => run.watch(end), report));
      }
      return answer;
    };
    if (typeof result._thenUnwrap !== "function" || typeof result.asResponse !== "function") {
      return result.then(take, (error: unknown) => {
        add(undefined, error);
        throw error;
      });
    }
    result.asResponse().catch((error: unknown) => add(undefined, error));
    return result._thenUnwrap(take);
  } catch {
    return result;
  }
}

function attempt(act: () => void): void {
  try {
    act();
  } catch {
    // The agent gets its answer whatever it looks like.
  }
}

function readRequest(request: unknown): ModelCall {
  const asked = (asPlain(request) ?? {}) as Json;
  const said = asked.messages ?? asked.input ?? [];
  const messages = Array.isArray(said) ? said : [{ role: "user", content: said }];
  const told = asked.system || asked.instructions; // Anthropic and the Responses API have it beside the messages
  return {
    request: told ? [{ role: "system", content: told }, ...messages] : messages,
    reply: [],
    error: "",
    model: String(asked.model ?? ""),
    tools: Array.isArray(asked.tools) ? asked.tools : [],
    tokens: 0,
  };
}

function readAnswer(call: ModelCall, answer: unknown): ModelCall {
  const reply = asPlain(answer);
  if (!isObject(reply)) return call;
  const tokens = countTokens(reply.usage);
  return { ...call, reply: readReply(reply), model: String(reply.model || call.model), tokens };
}

function readReply(reply: Json): unknown[] {
  if (Array.isArray(reply.choices)) {
    const choices = reply.choices.slice(0, 1).filter(isObject);
    return choices.flatMap((choice) => (choice.message ? [choice.message] : []));
  }
  if (Array.isArray(reply.output)) return reply.output;
  return "content" in reply ? [{ role: "assistant", content: reply.content }] : [];
}

/** Return the tokens that a model's usage counts: its total, or what went in and came out. */
export function countTokens(usage: unknown): number {
  if (!isObject(usage)) return 0;
  const total = usage.total_tokens ?? usage.totalTokens;
  if (typeof total === "number") return total;
  const names = ["input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];
  const counts = [...names, "inputTokens", "outputTokens"].map((name) => {
    const count = usage[name];
    return isObject(count) ? count.total : count;
  });
  return counts.reduce<number>((sum, count) => sum + (typeof count === "number" ? count : 0), 0);
}
