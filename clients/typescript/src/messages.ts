/** Messages in a form that ERL reads: it knows those of OpenAI and Anthropic, and not those of the AI SDK. */

import { isObject, type Json } from "./api.js";
import { asPlain, asString, COUNT } from "./plain.js";

const ROLES = ["system", "developer", "user", "human", "assistant", "model", "ai", "tool", "function"];
const ITEM = /^(message|reasoning|[a-z_]{1,60}_call(_output)?)$/;
const DATA_URL = /^data:([\w.+-]{1,100}\/[\w.+-]{1,100})?[^,]{0,100};base64,/;
const MAX_INLINE_CHARS = 1_000;

/** Return messages as ERL reads them. One in no known form is kept as a text. */
export function readMessages(messages: Iterable<unknown>): Json[] {
  return Array.from(messages).flatMap((message) => readMessage(asPlain(message)));
}

function readMessage(message: unknown): Json[] {
  if (!isObject(message) || !isKnown(message)) return [{ role: "user", content: asString(message) }];
  const plain = withoutBytes(message) as Json;
  return Array.isArray(plain.content) && isOfAiSdk(plain.content) ? readAiSdk(plain, plain.content) : [plain];
}

function isKnown(message: Json): boolean {
  if (typeof message.role === "string" && ROLES.includes(message.role)) {
    return message.role !== "user" || "content" in message || "parts" in message;
  }
  return (typeof message.type === "string" && ITEM.test(message.type)) || "lc" in message;
}

/** Return the first text that a user said, "" if there is none. */
export function findTask(messages: readonly Json[]): string {
  const content = messages.find((message) => message.role === "user")?.content;
  if (!Array.isArray(content)) return typeof content === "string" ? content : "";
  return content.map((part: unknown) => (isObject(part) && typeof part.text === "string" ? part.text : "")).join("\n");
}

/** Name images and files by their type and size: their bytes are no part of what an agent did. */
function withoutBytes(value: unknown): unknown {
  if (typeof value === "string") {
    const type = value.length > MAX_INLINE_CHARS && DATA_URL.exec(value);
    return type ? describeBytes(type[1], value.length - type[0].length) : value;
  }
  if (Array.isArray(value)) return value.map(withoutBytes);
  if (!isObject(value)) return value;
  const mediaType = value.media_type ?? value.mediaType ?? value.format;
  if (mediaType !== undefined && typeof value.data === "string" && value.data.length > MAX_INLINE_CHARS) {
    const { data, ...rest } = value;
    return { ...rest, url: describeBytes(mediaType, data.length) };
  }
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, withoutBytes(item)]));
}

function describeBytes(mediaType: unknown, base64Chars: number): string {
  return `${mediaType ?? "file"}, ${COUNT.format(Math.floor((base64Chars * 3) / 4))} bytes`;
}

function isOfAiSdk(parts: unknown[]): boolean {
  return parts.some((part) => {
    if (!isObject(part) || "source" in part || "file" in part) return false; // Anthropic's and OpenAI's
    return /^(tool-call|tool-result|file|image|reasoning)$/.test(String(part.type));
  });
}

/** Return messages of OpenAI's chat that say what a message of the AI SDK says. */
function readAiSdk(message: Json, parts: unknown[]): Json[] {
  const texts: string[] = [];
  const thoughts: string[] = [];
  const calls: Json[] = [];
  const results: Json[] = [];
  for (const part of parts.filter(isObject)) {
    if (part.type === "text") texts.push(asString(part.text));
    else if (part.type === "reasoning") thoughts.push(asString(part.text));
    else if (part.type === "tool-call") {
      const called = { name: part.toolName, arguments: asString(part.input ?? part.args ?? {}) };
      calls.push({ id: part.toolCallId, type: "function", function: called });
    } else if (part.type === "tool-result") results.push(readToolResult(part));
    else texts.push(`[${part.type} ${part.url ?? part.mediaType ?? ""}]`);
  }
  if (message.role === "tool") return results;
  const said: Json = { role: message.role, content: texts.join("\n") };
  if (thoughts.length) said.reasoning_content = thoughts.join("\n");
  if (calls.length) said.tool_calls = calls;
  return [said, ...results];
}

function readToolResult(part: Json): Json {
  const output = isObject(part.output) ? part.output : { type: "json", value: part.output ?? part.result };
  const failed = /^(error|execution-denied)/.test(String(output.type)) || part.isError === true;
  const value = output.value ?? output.reason ?? "";
  const isInParts = output.type === "content" && Array.isArray(value);
  const content = isInParts ? value.map((part: Json) => asString(part.text ?? part)).join("\n") : asString(value);
  return { role: "tool", tool_call_id: part.toolCallId, content, ...(failed ? { is_error: true } : {}) };
}
