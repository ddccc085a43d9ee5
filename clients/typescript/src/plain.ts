/** Any value of an agent as plain JSON, and runs no larger than ERL takes. The limits are those of the Python client. */

import { describeError, isObject, type Json } from "./api.js";

const MAX_DEPTH_LEVELS = 24;
export const MAX_TEXT_CHARS = 60_000;
const MIN_TEXT_CHARS = 200;
export const MAX_NAME_CHARS = 200;
const MAX_STEPS = 2_000;
const MAX_TOOLS = 500;
const MAX_BODY_BYTES = 900_000; // ERL takes 1 MiB
export const COUNT = new Intl.NumberFormat("en-US");
const NAMES = ["task_id", "agent", "user_id", "model", "external_id"];

/** Return a value as plain JSON; messages and answers of SDKs as they would be on the wire. Never throws. */
export function asPlain(value: unknown): unknown {
  try {
    return readPlain(value, []);
  } catch (error) {
    return `[unreadable: ${describeError(error)}]`; // a getter or a proxy of the agent's
  }
}

function readPlain(value: unknown, ancestors: readonly object[]): unknown {
  if (value === null || typeof value === "boolean") return value;
  if (typeof value === "string") return asText(value);
  if (typeof value === "number") return Number.isFinite(value) ? value : String(value);
  if (typeof value === "bigint") return String(value);
  if (typeof value !== "object") return undefined; // as JSON.stringify leaves functions out
  if (value instanceof Error) return asText(describeError(value));
  if (ArrayBuffer.isView(value) || value instanceof ArrayBuffer) return `[${value.byteLength} bytes]`;
  if (ancestors.includes(value) || ancestors.length >= MAX_DEPTH_LEVELS) return "[…]";
  const inner = [...ancestors, value];
  if ("toJSON" in value && typeof value.toJSON === "function") return readPlain(value.toJSON(), inner);
  if (Array.isArray(value) || value instanceof Set) {
    return Array.from(value, (item) => readPlain(item, inner) ?? null);
  }
  const entries = value instanceof Map ? [...value] : Object.entries(value);
  const plain: Json = {};
  for (const [name, item] of entries) {
    const member = readPlain(item, inner);
    if (member !== undefined) plain[asText(String(name))] = member;
  }
  return plain;
}

/** Return a text without what cannot be stored: NUL characters and halves of surrogate pairs. */
export function asText(value: string): string {
  return value.replaceAll("\0", "\ufffd").toWellFormed();
}

/** Return a text as it is, and anything else as JSON. */
export function asString(value: unknown): string {
  const plain = asPlain(value);
  return typeof plain === "string" ? plain : (JSON.stringify(plain) ?? "");
}

/**
 * Return a text that is not too long: of a long one the first two thirds and the last third of what is kept.
 *
 * The mark between them gives the length and the SHA-256 of the whole.
 */
export async function cut(text: string, maxChars: number, marks = new Map<string, string>()): Promise<string> {
  if (text.length <= maxChars) return text;
  const mark = marks.get(text) ?? (await describeWhole(text));
  marks.set(text, mark);
  const tail = Math.floor(maxChars / 3);
  const head = Math.max(0, maxChars - tail - mark.length);
  return text.slice(0, head).toWellFormed() + mark + text.slice(-tail).toWellFormed();
}

async function describeWhole(text: string): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
  const hash = Array.from(digest.subarray(0, 8), (byte) => byte.toString(16).padStart(2, "0")).join("");
  return `\n[… cut: the whole has ${COUNT.format(text.length)} characters, sha256 ${hash} …]\n`;
}

/** Return a run that is small enough to record: long texts are cut, and of very many steps those in the middle. */
export async function fit(run: Json): Promise<Json> {
  let [maxChars, maxSteps] = [MAX_TEXT_CHARS, MAX_STEPS];
  const marks = new Map<string, string>(); // each text is hashed once
  for (;;) {
    const fitted = await fitTo(run, maxChars, maxSteps, marks);
    if (countBytes(fitted) <= MAX_BODY_BYTES || maxSteps <= 2) return fitted;
    if (maxChars > MIN_TEXT_CHARS) maxChars = Math.max(MIN_TEXT_CHARS, Math.floor(maxChars / 2));
    else maxSteps = Math.floor(maxSteps / 2);
  }
}

async function fitTo(run: Json, maxChars: number, maxSteps: number, marks: Map<string, string>): Promise<Json> {
  const fitted: Json = {};
  for (const [name, value] of Object.entries(run)) {
    const isName = NAMES.includes(name) && typeof value === "string";
    fitted[name] = isName ? value.slice(0, MAX_NAME_CHARS).toWellFormed() : await cutAll(value, maxChars, marks);
  }
  if (Array.isArray(fitted.tools)) fitted.tools = fitted.tools.slice(0, MAX_TOOLS);
  if (Array.isArray(fitted.steps)) {
    const steps = leaveOutMiddle(
      fitted.steps,
      maxSteps,
      () => 1,
      (mark) => ({ observation: mark }),
    );
    fitted.steps = steps.map((step, number) => ({ ...(step as Json), index: number + 1 }));
  }
  if (Array.isArray(fitted.messages)) {
    const asMessage = (mark: string): Json => ({ role: "user", content: mark });
    fitted.messages = leaveOutMiddle(fitted.messages, maxSteps, countSteps, asMessage);
  }
  return fitted;
}

/** Keep the first two thirds and the last third of what may stay, with a mark between them. */
function leaveOutMiddle(
  items: unknown[],
  max: number,
  weigh: (item: unknown) => number,
  asItem: (mark: string) => unknown,
): unknown[] {
  const weights = items.map(weigh);
  if (weights.reduce((sum, weight) => sum + weight, 0) <= max) return items;
  const headRoom = Math.floor((max * 2) / 3);
  let [start, room] = [0, headRoom];
  while (start < items.length && (weights[start] ?? 0) <= room) room -= weights[start++] ?? 0;
  let end = items.length;
  room = max - headRoom - 1;
  while (end > start && (weights[end - 1] ?? 0) <= room) room -= weights[--end] ?? 0;
  const mark = `[… cut: ${COUNT.format(end - start)} of ${COUNT.format(items.length)} left out here …]`;
  return [...items.slice(0, start), asItem(mark), ...items.slice(end)];
}

/** Return how many steps ERL makes of a message at most: one, or one for each tool call. */
function countSteps(message: unknown): number {
  if (!isObject(message)) return 1;
  const length = (value: unknown): number => (Array.isArray(value) ? value.length : 0);
  return Math.max(1, length(message.tool_calls), length(message.content));
}

async function cutAll(value: unknown, maxChars: number, marks: Map<string, string>): Promise<unknown> {
  if (typeof value === "string") return cut(value, maxChars, marks);
  if (Array.isArray(value)) {
    const items: unknown[] = [];
    for (const item of value) items.push(await cutAll(item, maxChars, marks));
    return items;
  }
  if (!isObject(value)) return value;
  const members: Json = {};
  for (const [name, item] of Object.entries(value)) members[name] = await cutAll(item, maxChars, marks);
  return members;
}

function countBytes(value: unknown): number {
  return new TextEncoder().encode(JSON.stringify(value)).length;
}
