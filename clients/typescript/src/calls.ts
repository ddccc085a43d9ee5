/**
 * What the calls of language models in one run said, put together to one log.
 *
 * Agents send the whole conversation with each call: a call that continues an earlier one takes its place.
 */

import { isObject } from "./api.js";

/** One call as plain JSON. `error` says why there is no reply. */
export interface ModelCall {
  request: unknown[];
  reply: unknown[];
  error: string;
  model: string;
  tools: unknown[];
  tokens: number;
}

interface Conversation {
  call: ModelCall;
  keys: string[]; // what its messages are compared by
  start: number; // messages before that one are in an earlier conversation
}

/** The calls of one run. */
export class CallLog {
  tokens = 0;
  model = "";
  readonly tools: unknown[] = [];
  #instructions: unknown[] = []; // the system messages of the first call that has any
  readonly #conversations: Conversation[] = [];

  add(call: ModelCall): void {
    const request = call.request.filter((message) => !isInstruction(message));
    if (!this.#instructions.length) this.#instructions = call.request.filter(isInstruction);
    const keys = request.map((message) => JSON.stringify(message));
    this.tokens += call.tokens;
    this.model = call.model || this.model;
    this.#addTools(call.tools);
    let best: Conversation | undefined;
    let common = 0;
    for (const conversation of this.#conversations) {
      const length = countCommon(conversation.keys, keys);
      if (length >= common) [best, common] = [conversation, length];
    }
    const continues = best !== undefined && common > 0 && common === best.keys.length;
    if (best && continues && (keys.length > common || best.call.error)) {
      best.call = { ...call, request };
      best.keys = keys;
    } else {
      this.#conversations.push({ call: { ...call, request }, keys, start: common });
    }
  }

  /** Return all that was said, in order; first what the agent was told. */
  messages(): unknown[] {
    const said = this.#conversations.flatMap(({ call, start }) => [...call.request.slice(start), ...call.reply]);
    return [...this.#instructions, ...said];
  }

  /** Return why calls failed if the agent did not ask again. */
  errors(): string[] {
    return this.#conversations.map(({ call }) => call.error).filter((error) => error !== "");
  }

  #addTools(tools: unknown[]): void {
    const texts = new Set(this.tools.map((tool) => JSON.stringify(tool)));
    this.tools.push(...tools.filter((tool) => !texts.has(JSON.stringify(tool))));
  }
}

function isInstruction(message: unknown): boolean {
  return isObject(message) && (message.role === "system" || message.role === "developer");
}

/** Return how many messages two logs begin with in common. */
function countCommon(left: readonly string[], right: readonly string[]): number {
  let length = 0;
  while (length < left.length && length < right.length && left[length] === right[length]) length += 1;
  return length;
}
