/** A run that is open: what the agent says about it until its block ends. */

import { describeError, type Json } from "./api.js";
import { CallLog } from "./calls.js";
import { findTask, readMessages } from "./messages.js";
import { asPlain, asString, cut, fit } from "./plain.js";

export const SOURCES = ["agent", "environment", "test", "human", "judge"] as const;
export type Source = (typeof SOURCES)[number];

/** A lesson as ERL returns it; all of them are in the context. */
export interface Lesson {
  heuristic_id?: string;
  trigger?: string;
  guideline?: string;
  injected?: boolean;
  [member: string]: unknown;
}

/** The lessons for a task. */
export interface Lessons {
  /** The text to put once at the top of the system prompt; "" if there are no lessons. */
  context: string;
  /** The same lessons one by one. */
  lessons: Lesson[];
  /** The id of the answer that they came with. */
  retrievalId: string | null;
}

export interface RunOptions {
  /** The family of the task, such as "airline". */
  family?: string;
  agent?: string;
  /** Your own id of the end user, to filter by and to erase a person by. By default, that of the calling run. */
  userId?: string;
  tags?: readonly string[];
  /** Your own id of the run, made up if you give none. */
  externalId?: string;
  /** The `externalId` of the run that called this one; null for none. By default, the run that this code is in. */
  parentId?: string | null;
}

export interface Step {
  tool?: string;
  arguments?: unknown;
  thought?: string;
  observation?: unknown;
  error?: string;
}

export interface Judgement {
  /** From 0 to 1. */
  score?: number;
  /** Who judged it. */
  source?: Source;
}

/** One run of an agent. Its methods only take notes: what they are told is recorded when the block ends. */
export class Run implements Lessons {
  readonly family: string;
  readonly agent: string;
  readonly externalId: string;
  readonly parentId: string;
  context = "";
  lessons: Lesson[] = [];
  retrievalId: string | null = null;
  // These may be set, and are recorded with the run.
  userId: string;
  tools: unknown[] = [];
  systemPrompt = "";
  tags: string[];
  model = "";
  tokens: number | undefined;
  costUsd: number | undefined;
  summary = "";
  metadata: Json = {};
  /** @internal */
  readonly calls = new CallLog();
  readonly #startedAt = new Date();
  readonly #openStreams = new Set<() => void>();
  readonly #warn: (message: string) => void;
  #messages: Json[] = [];
  #steps: Json[] = [];
  #outcome: Json = {};
  #error = "";
  #inner: Json[] = [];
  #hasEnded = false;

  /** @internal */
  constructor(
    readonly task: string,
    options: RunOptions,
    warn: (message: string) => void,
  ) {
    this.family = options.family ?? "";
    this.agent = options.agent ?? "";
    this.userId = options.userId ?? "";
    this.externalId = options.externalId || crypto.randomUUID();
    this.parentId = options.parentId ?? "";
    this.tags = [...(options.tags ?? [])];
    this.#warn = warn;
  }

  /**
   * Tell the whole chat log, in the form of OpenAI, Anthropic or the AI SDK. The last log that is told counts.
   *
   * Takes the place of calls that were captured.
   */
  messages(messages: Iterable<unknown>): void {
    this.#messages = readMessages(messages);
  }

  /** Tell one step: the tool that was called, with what, and what it returned. Follows the chat log, if any. */
  step(step: Step): void {
    const plain = asPlain(step.arguments ?? {});
    const isObject = typeof plain === "object" && plain !== null && !Array.isArray(plain);
    this.#steps.push({
      thought: step.thought ?? "",
      action: step.tool ? { name: step.tool, arguments: isObject ? plain : { input: plain } } : null,
      observation: asString(step.observation ?? ""),
      error: step.error ?? "",
    });
  }

  /** Tell that the task was done. */
  success(judgement: Judgement = {}): void {
    this.#end("success", judgement);
  }

  /** Tell that the task was not done, and why. */
  failure(judgement: Judgement & { reason?: string } = {}): void {
    this.#end("failure", judgement);
    if (judgement.reason) this.#error = judgement.reason;
  }

  /** Take note of an error that ended the run: a failure, and unknown if the run was only aborted. */
  endWith(error: unknown): void {
    this.#error = describeError(error);
    if (this.#outcome.outcome) return;
    const isAborted = error instanceof Error && /Abort/.test(`${error.name} ${error.constructor.name}`);
    this.#outcome = { outcome: isAborted ? "unknown" : "failure" };
  }

  /** Be told when the run ends before a stream does. Returns what the stream calls at its end. @internal */
  watch(report: () => void): () => void {
    const end = (): void => {
      if (this.#openStreams.delete(end)) report();
    };
    this.#openStreams.add(end);
    return end;
  }

  /** Keep the records of a run inside this one until it ends: ERL has to know the caller first. @internal */
  hold(bodies: readonly Json[]): boolean {
    if (!this.#hasEnded) this.#inner.push(...bodies);
    return !this.#hasEnded;
  }

  /** Return all there is to record: the run, and then those inside it. Nothing if it ended before. @internal */
  async end(): Promise<Json[]> {
    if (this.#hasEnded) return [];
    for (const report of [...this.#openStreams]) report();
    const body = await this.body();
    this.#hasEnded = true;
    return [body, ...this.#inner];
  }

  /** Return the run as `POST /api/v1/trajectories` takes it. */
  async body(): Promise<Json> {
    const captured = this.#messages.length ? [] : this.calls.errors();
    const errors = [...captured, this.#error].filter((error) => error !== "");
    const steps = [...this.#steps, ...errors.map((error) => ({ error }))];
    const messages = this.#messages.length ? this.#messages : readMessages(this.calls.messages());
    const task = [this.task, findTask(messages), this.family, "(no task)"].find((text) => text.trim());
    const fields: Json = {
      task,
      task_id: this.family.trim(),
      agent: this.agent,
      user_id: this.userId,
      external_id: this.externalId,
      parent_id: this.parentId,
      retrieval_id: this.retrievalId,
      started_at: this.#startedAt.toISOString(),
      ended_at: new Date(Math.max(this.#startedAt.getTime(), Date.now())).toISOString(), // the clock may be set back
      model: this.model || this.calls.model,
      tokens: this.tokens ?? (this.calls.tokens || undefined),
      cost_usd: this.costUsd,
      tags: this.tags,
      summary: await cut(this.summary, 20_000),
      tools: this.tools.length ? this.tools : this.calls.tools,
      system_prompt: this.systemPrompt,
      metadata: this.metadata,
      ...(messages.length ? { messages: [...messages, ...steps.flatMap(asMessages)] } : { steps }),
      ...this.#outcome,
    };
    return fit(asPlain(Object.fromEntries(Object.entries(fields).filter(([, value]) => !isEmpty(value)))) as Json);
  }

  #end(outcome: "success" | "failure", { score, source = "agent" }: Judgement): void {
    this.#outcome = { outcome, outcome_source: source };
    if (!SOURCES.includes(source)) {
      this.#warn(`The source of an outcome is one of ${SOURCES.join(", ")}, not ${source}.`);
      this.#outcome.outcome_source = "agent";
      this.metadata.source = source;
    }
    if (score === undefined) return;
    const contradicts = (outcome === "success" && score === 0) || (outcome === "failure" && score === 1);
    if (score >= 0 && score <= 1 && !contradicts) {
      this.#outcome.score = score;
    } else {
      this.#warn(`The score ${score} of a ${outcome} cannot be recorded: scores are from 0 to 1.`);
      this.metadata.score = String(score);
    }
  }
}

/** Return a step as the messages of a chat that say the same: ERL takes messages or steps, not both. */
function asMessages(step: Json, number: number): Json[] {
  const action = step.action as { name: string; arguments: unknown } | null | undefined;
  const id = `erl_step_${number}`;
  const result: Json = { role: "tool", content: step.observation ?? "" };
  if (step.error) Object.assign(result, { is_error: true, error: step.error });
  if (!action) {
    // The name belongs to no call, so that ERL does not take this for the result of one.
    const said = step.thought ? [{ type: "reasoning", summary: [{ type: "summary_text", text: step.thought }] }] : [];
    return result.content || result.error ? [...said, { ...result, name: id }] : said;
  }
  const called = { id, type: "function", function: { name: action.name, arguments: JSON.stringify(action.arguments) } };
  return [
    { role: "assistant", content: step.thought || null, tool_calls: [called] },
    { ...result, tool_call_id: id },
  ];
}

function isEmpty(value: unknown): boolean {
  if (value === undefined || value === null || value === "") return true;
  return typeof value === "object" && Object.keys(value).length === 0;
}
