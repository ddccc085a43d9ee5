/** The client that an agent holds: lessons before a run, and the record of the run when its block ends. */

import { Api, describeError, ERLError, isObject, Unavailable } from "./api.js";
import type { Destination, Json, Transport } from "./api.js";
import { Outbox } from "./outbox.js";
import { asText, cut, MAX_NAME_CHARS, MAX_TEXT_CHARS } from "./plain.js";
import { Run, type Judgement, type Lesson, type Lessons, type RunOptions } from "./run.js";
import type { Spool } from "./spool.js";
import { captureCalls } from "./wrap.js";

const BUDGET_SECONDS = 2;
const FLUSH_SECONDS = 10;
const MAX_BEGUN = 1_000;
const DEFAULT_URL = "http://127.0.0.1:8000";

export interface Options {
  /** `ERL_URL`, or else what `erl login` stored. */
  url?: string;
  /** `ERL_API_KEY`, or else what `erl login` stored. */
  apiKey?: string;
  agent?: string;
  /** Your own id of the end user of runs that name none: `ERL_USER_ID`, or else none. */
  userId?: string;
  /** Throw ERLError if something goes wrong, and leave a block only when its run is recorded. */
  strict?: boolean;
  /** How long an agent waits for lessons, and an ending process for its last runs: `ERL_BUDGET_SECONDS`, or else 2. */
  budgetSeconds?: number;
  /** The folder of runs that wait for ERL. Without a file system they wait in memory. */
  spool?: string;
  /** Keeps a serverless function alive until a run is sent. Without it, a block on an edge runtime waits itself. */
  waitUntil?: (promise: Promise<unknown>) => void;
  /** Takes the lines that say what went wrong; `console.warn` if you give none. */
  warn?: (message: string) => void;
}

/** Where the current run is kept: an AsyncLocalStorage. */
export interface RunStorage {
  getStore(): Run | undefined;
  run<T>(run: Run, act: () => T): T;
}

/** What differs between Node and edge runtimes. */
export interface Platform {
  transport: Transport;
  sendingTimeoutSeconds: number;
  storage: RunStorage | undefined;
  env(name: string): string | undefined;
  readCredentials(): { url?: string; api_key?: string };
  makeSpool(destination: Destination, folder: string | undefined): Spool;
  /** Whether runs outlive the process that made them. */
  isDurable: boolean;
  /** Call a function when the process has nothing else to do. Returns what undoes it. */
  atExit(act: () => Promise<void>): () => void;
}

type Act<T> = (run: Run) => T | PromiseLike<T>;

/** How a recorded run ended. */
export interface Outcome extends Judgement {
  outcome?: "success" | "failure" | "unknown";
}

/** Nothing here throws, or keeps the agent waiting for longer than its budget, unless `strict` is true. */
export class Client {
  readonly agent: string;
  readonly userId: string;
  readonly budgetSeconds: number;
  readonly #api: Api;
  readonly #outbox: Outbox;
  readonly #platform: Platform;
  readonly #strict: boolean;
  readonly #waitUntil: Options["waitUntil"];
  readonly #warn: (message: string) => void;
  readonly #openRuns = new Map<string, Run>();
  readonly #begun = new Map<string, Run>(); // without a block, in order
  readonly #forgetExit: () => void;
  #noLessonsBefore = 0;

  constructor(options: Options, platform: Platform) {
    this.#platform = platform;
    this.#strict = options.strict ?? false;
    this.#waitUntil = options.waitUntil;
    this.#warn = makeWarn(options.warn);
    this.agent = options.agent ?? "";
    this.userId = options.userId || platform.env("ERL_USER_ID") || "";
    this.budgetSeconds = options.budgetSeconds ?? this.#readBudget();
    const destination = this.#findDestination(options);
    this.#api = new Api(destination, platform.transport, platform.sendingTimeoutSeconds);
    if (!this.#api.hasKey) {
      this.#fail(new ERLError("Set ERL_API_KEY, or run `erl login`: without a key there are no lessons."));
    }
    this.#outbox = new Outbox(this.#api, platform.makeSpool(destination, options.spool), this.#warn);
    if (platform.isDurable && this.#api.hasKey) this.#outbox.start(); // what an earlier process left
    this.#forgetExit = platform.atExit(() => this.#endAll());
  }

  /**
   * Do something as a run: its lessons are there when `act` is called, and it is recorded when `act` ends.
   *
   * A run inside another is called by that one.
   */
  run<T>(task: string, act: Act<T>): Promise<T>;
  run<T>(task: string, options: RunOptions, act: Act<T>): Promise<T>;
  async run<T>(task: string, ...rest: [Act<T>] | [RunOptions, Act<T>]): Promise<T> {
    const [options, act] = rest.length === 1 ? [{}, rest[0]] : rest;
    const run = this.#open(task, options);
    await this.#fetch(run);
    let result: T;
    try {
      result = await this.within(run, () => act(run));
    } catch (error) {
      run.endWith(error);
      await this.#keep(run);
      throw error;
    }
    await this.#keep(run);
    if (this.#strict) await this.#checkRecorded();
    return result;
  }

  /** Open a run where there is no place for a block, as in a handler that streams its answer. Close it with `end()`. */
  async begin(task: string, options: RunOptions = {}): Promise<Run> {
    const run = this.#open(task, options);
    this.#begun.set(run.externalId, run);
    const oldest = this.#begun.values().next().value;
    if (this.#begun.size > MAX_BEGUN && oldest) await this.end(oldest); // never ended: recorded as far as it came
    await this.#fetch(run);
    return run;
  }

  /** Record a run that `begin` opened, with the error that ended it, if one did. Once is enough. */
  async end(run: Run, error?: unknown): Promise<void> {
    if (!this.#begun.delete(run.externalId)) return;
    if (error !== undefined) run.endWith(error);
    await this.#keep(run);
  }

  /** Do something in a run that `begin` opened: calls and runs in it belong to that one. */
  within<T>(run: Run, act: () => T): T {
    return this.#platform.storage ? this.#platform.storage.run(run, act) : act();
  }

  /** Return the run that this code is in. Undefined outside of one, and on runtimes without AsyncLocalStorage. */
  currentRun(): Run | undefined {
    return this.#platform.storage?.getStore();
  }

  /** Return the lessons for a task without a run. `retrievalId` ties them to a run that you record yourself. */
  async lessons(task: string, options: Pick<RunOptions, "family" | "agent"> = {}): Promise<Lessons> {
    const lessons: Lessons = { context: "", lessons: [], retrievalId: null };
    try {
      await this.#ask(lessons, task, options.family ?? "", options.agent || this.agent);
    } catch (error) {
      if (error instanceof Unavailable && error.retryAfterSeconds !== undefined) {
        this.#noLessonsBefore = Date.now() + error.retryAfterSeconds * 1000;
      }
      this.#fail(error);
    }
    return lessons;
  }

  /**
   * Report how a run ended if you learn it after the run was recorded, and tell whether ERL took it.
   *
   * `externalId` is that of the run. Needs a key with the scope `trajectories:read`. It is not kept if ERL is away.
   */
  async outcome(externalId: string, outcome: Outcome): Promise<boolean> {
    const deadline = Date.now() + this.budgetSeconds * 1000;
    const left = (): number => Math.max(0.1, (deadline - Date.now()) / 1000);
    try {
      await this.#outbox.flush(left(), { patient: false }); // the run may still wait here
      const found = await this.#api.get(`/trajectories?external_id=${encodeURIComponent(externalId)}`, left());
      const id = Array.isArray(found.results) ? (found.results[0] as Json | undefined)?.id : undefined;
      if (typeof id !== "string") throw new ERLError(`ERL has no run ${externalId} yet.`);
      const { source, ...rest } = outcome;
      const body = source ? { ...rest, outcome_source: source } : rest;
      await this.#api.post(`/trajectories/${id}/outcome`, body, { timeoutSeconds: left() });
      return true;
    } catch (error) {
      this.#fail(error);
      return false;
    }
  }

  /**
   * Return the same OpenAI or Anthropic client, whose calls are from now on captured by the run they are in.
   *
   * `run` is the run of all its calls, for runtimes without AsyncLocalStorage.
   */
  wrap<T extends object>(client: T, options: { run?: Run } = {}): T {
    try {
      captureCalls(client, () => options.run ?? this.currentRun());
    } catch (error) {
      this.#fail(new ERLError(`Calls to ${client?.constructor?.name} cannot be captured: ${describeError(error)}`));
    }
    return client;
  }

  /** Wait until all runs are recorded, and tell whether they are. What is not yet stays in the spool. */
  flush(seconds = FLUSH_SECONDS): Promise<boolean> {
    return this.#outbox.flush(seconds);
  }

  /** Give the last runs a moment to be recorded. Happens by itself when a process has nothing else to do. */
  async close(): Promise<void> {
    this.#forgetExit();
    await this.#endAll();
    await this.#outbox.close(0);
  }

  async #endAll(): Promise<void> {
    for (const run of [...this.#begun.values()]) await this.end(run);
    await this.#outbox.flush(this.budgetSeconds, { patient: false });
  }

  #open(task: string, options: RunOptions): Run {
    const caller = this.currentRun();
    const isOurs = caller !== undefined && this.#openRuns.has(caller.externalId);
    const parentId = options.parentId === undefined && isOurs ? caller.externalId : options.parentId;
    const agent = options.agent || this.agent;
    const userId = options.userId || caller?.userId || this.userId;
    const run = new Run(String(task), { ...options, agent, userId, parentId: parentId ?? null }, this.#warn);
    this.#openRuns.set(run.externalId, run);
    return run;
  }

  async #fetch(run: Run): Promise<void> {
    try {
      Object.assign(run, await this.lessons(run.task, run));
    } catch (error) {
      this.#openRuns.delete(run.externalId); // a strict agent does not begin
      this.#begun.delete(run.externalId);
      throw error;
    }
  }

  async #ask(lessons: Lessons, task: string, family: string, agent: string): Promise<void> {
    if (!this.#api.hasKey || !task.trim() || Date.now() < this.#noLessonsBefore) return;
    const question = {
      task: await cut(asText(task), MAX_TEXT_CHARS),
      task_id: asText(family).slice(0, MAX_NAME_CHARS),
      agent: asText(agent).slice(0, MAX_NAME_CHARS),
    };
    const answer = await this.#api.post("/retrieve", question, { timeoutSeconds: this.budgetSeconds });
    if (typeof answer.context !== "string" || !Array.isArray(answer.items)) {
      throw new Unavailable("The server at ERL's address returned no lessons; check ERL_URL.");
    }
    lessons.context = answer.context;
    lessons.lessons = answer.items.filter(isObject) as Lesson[];
    lessons.retrievalId = typeof answer.retrieval_id === "string" ? answer.retrieval_id : null;
  }

  /** Write the run down, and let it be sent. */
  async #keep(run: Run): Promise<void> {
    try {
      const bodies = await run.end();
      const caller = this.#openRuns.get(run.parentId);
      if (!this.#api.hasKey || caller?.hold(bodies)) return;
      for (const body of bodies) await this.#outbox.put(body);
      await this.#seeToSending();
    } catch (error) {
      this.#fail(new ERLError(`The run cannot be recorded: ${describeError(error)}`));
    } finally {
      this.#openRuns.delete(run.externalId);
    }
  }

  /** Where the process may be stopped after the block, wait for what is being sent, or let the platform wait. */
  async #seeToSending(): Promise<void> {
    if (this.#waitUntil) this.#waitUntil(this.#outbox.flush(this.#platform.sendingTimeoutSeconds));
    else if (!this.#platform.isDurable) await this.#outbox.flush(this.budgetSeconds, { patient: false });
  }

  /** Throw if a strict agent's run is not recorded yet. It waits in the spool. */
  async #checkRecorded(): Promise<void> {
    const seconds = this.#platform.sendingTimeoutSeconds;
    this.#outbox.lastError = undefined;
    const done = await this.#outbox.flush(seconds, { patient: false });
    if (this.#outbox.lastError) throw this.#outbox.lastError;
    if (!done) throw new Unavailable(`ERL did not record the run within ${seconds} seconds.`);
  }

  /** Throw if the agent wants to know, else leave a line in the log. */
  #fail(error: unknown): void {
    const reason = error instanceof ERLError ? error : new ERLError(describeError(error));
    if (this.#strict) throw reason;
    this.#warn(reason.message);
  }

  #findDestination(options: Options): Destination {
    const stored = this.#platform.readCredentials();
    const url = options.url || this.#platform.env("ERL_URL") || stored.url || DEFAULT_URL;
    const apiKey = options.apiKey || this.#platform.env("ERL_API_KEY") || stored.api_key || "";
    return { url: url.replace(/\/+$/, ""), apiKey: apiKey.trim() };
  }

  #readBudget(): number {
    const stated = this.#platform.env("ERL_BUDGET_SECONDS");
    const seconds = Number(stated || BUDGET_SECONDS);
    if (Number.isFinite(seconds)) return seconds;
    this.#warn("ERL_BUDGET_SECONDS must be a number of seconds.");
    return BUDGET_SECONDS;
  }
}

/** Return a function that takes a line for the log, and never throws. */
function makeWarn(warn: Options["warn"]): (message: string) => void {
  return (message) => {
    try {
      if (warn) warn(message);
      else console.warn(`erl: ${message}`);
    } catch {
      // The agent goes on without the line.
    }
  };
}
