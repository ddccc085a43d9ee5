/** Watch the stream of an answer go by, and put the answer together from its events. */

import { isObject, type Json } from "./api.js";
import { asPlain } from "./plain.js";

type Events = AsyncIterable<unknown>;

/** What `report` is told once: the events as far as they came, and what broke the stream off. */
export type Report = (events: unknown[], error?: unknown) => void;

/** Let the stream of an SDK report its events when it has ended, is left, or breaks off. */
export function watchStream(stream: unknown, hold: (end: () => void) => () => void, report: Report): void {
  const events: unknown[] = [];
  let failure: unknown;
  const end = hold(() => report(events, failure));
  async function* watched(source: Events): AsyncGenerator<unknown> {
    try {
      for await (const event of source) {
        events.push(asPlain(event));
        yield event;
      }
    } catch (error) {
      failure = error;
      throw error;
    } finally {
      end();
    }
  }
  // The streams of both SDKs make their iterators with this member, also those of their helpers.
  const made = stream as { iterator?: () => Events };
  if (typeof made.iterator !== "function") return;
  const original = made.iterator.bind(stream);
  made.iterator = () => watched(original());
}

/** Return the answer that events make: of OpenAI's chat or Responses, or of Anthropic's Messages. */
export function putTogether(events: readonly unknown[]): Json {
  let answer: Json = {};
  for (const event of events) {
    if (!isObject(event)) continue;
    if (Array.isArray(event.choices)) addChunk(answer, event, event.choices);
    else if (isObject(event.response))
      answer = event.response; // Responses: the last of them is whole
    else answer = addAnthropic(answer, event);
  }
  for (const block of asObjects(answer.content)) {
    if ("partial_json" in block) {
      block.input = block.partial_json;
      delete block.partial_json;
    }
  }
  return answer;
}

function addAnthropic(answer: Json, event: Json): Json {
  const blocks = asObjects(answer.content);
  if (event.type === "message_start" && isObject(event.message)) return { ...event.message, content: [] };
  if (event.type === "content_block_start" && isObject(event.content_block)) {
    return { ...answer, content: [...blocks, { ...event.content_block }] };
  }
  const last = blocks.at(-1);
  if (event.type === "content_block_delta" && isObject(event.delta) && last) addDelta(last, event.delta);
  if (event.type === "message_delta" && isObject(event.usage)) {
    answer.usage = { ...(answer.usage as Json | undefined), ...event.usage };
  }
  return answer;
}

function addDelta(block: Json, delta: Json): void {
  const names = delta.type === "input_json_delta" ? ["partial_json"] : ["text", "thinking", "signature"];
  for (const name of names) {
    if (typeof delta[name] === "string") block[name] = `${block[name] ?? ""}${delta[name]}`;
  }
}

function addChunk(answer: Json, chunk: Json, choices: unknown[]): void {
  answer.model = chunk.model || answer.model || "";
  if (chunk.usage) answer.usage = chunk.usage;
  answer.choices ??= [{ message: { role: "assistant", content: "" } }];
  const message = (answer.choices as [{ message: Json }])[0].message;
  for (const choice of choices) {
    if (!isObject(choice) || choice.index || !isObject(choice.delta)) continue;
    for (const name of ["content", "refusal", "reasoning_content"]) {
      if (choice.delta[name]) message[name] = `${message[name] ?? ""}${choice.delta[name]}`;
    }
    for (const part of asObjects(choice.delta.tool_calls)) addCall(message, part);
  }
}

function addCall(message: Json, part: Json): void {
  const calls = (message.tool_calls ??= []) as { id: unknown; type: string; function: Json }[];
  const index = typeof part.index === "number" ? part.index : 0;
  while (calls.length <= index) calls.push({ id: "", type: "function", function: { name: "", arguments: "" } });
  const call = calls[index];
  if (!call) return;
  call.id = part.id || call.id;
  for (const [name, text] of Object.entries(isObject(part.function) ? part.function : {})) {
    call.function[name] = `${call.function[name] ?? ""}${text ?? ""}`;
  }
}

function asObjects(value: unknown): Json[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}
