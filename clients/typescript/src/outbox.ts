/** Sends the runs of a spool in the background, in order, until ERL has recorded each of them. */

import { describeError, ERLError, Refused, Unavailable, type Api, type Json } from "./api.js";
import { LEASE_SECONDS, MemorySpool, type Spool, type WaitingRun } from "./spool.js";

const FIRST_PAUSE_SECONDS = 0.5;
const LONGEST_PAUSE_SECONDS = 60;
const MAX_RETRY_AFTER_SECONDS = 3_600;
const LOCKED_PAUSE_SECONDS = 0.2;
const POLL_SECONDS = 0.05;

/**
 * Takes runs at once, and sends them without keeping the process alive.
 *
 * A run that ERL refuses does not hold up the others. While the key is refused all runs wait.
 */
export class Outbox {
  lastError: ERLError | undefined;
  readonly #api: Api;
  readonly #spools: Spool[];
  readonly #warn: (message: string) => void;
  #busyUntil = 0; // a lease: an edge runtime may end a request, and what it was doing, at any await
  #timer: ReturnType<typeof setTimeout> | undefined;
  #closed = false;
  #failures = 0;
  #pausedUntil = 0;
  #notBefore = 0; // ERL asked for it with Retry-After

  constructor(api: Api, spool: Spool, warn: (message: string) => void) {
    this.#api = api;
    this.#spools = [spool, new MemorySpool()];
    this.#warn = warn;
  }

  /** Keep a run until it is recorded: in the spool, or in memory if it cannot be written down. */
  async put(run: Json): Promise<void> {
    const key = crypto.randomUUID();
    const [spool, memory] = this.#spools as [Spool, Spool];
    let dropped = 0;
    try {
      dropped = await spool.add(run, key);
    } catch (error) {
      this.#warn(`Runs will be lost if this process ends: ${describeError(error)}`);
      dropped = await memory.add(run, key);
    }
    if (dropped) this.#warn(`ERL was unreachable for too long: the ${dropped} oldest waiting runs were dropped.`);
    this.start();
  }

  /** Send what waits, also what earlier processes left. */
  start(): void {
    clearTimeout(this.#timer);
    if (this.#closed || this.#isBusy) return;
    const wait = Math.max(this.#pausedUntil, this.#notBefore) - Date.now();
    if (wait > 0) {
      this.#timer = setTimeout(() => this.start(), wait);
      (this.#timer as { unref?: () => void }).unref?.(); // a number in some runtimes
      return;
    }
    this.#keepBusy();
    void this.#work();
  }

  async isEmpty(): Promise<boolean> {
    const waiting = await Promise.all(this.#spools.map(list));
    return waiting.every((runs) => runs.length === 0);
  }

  /**
   * Wait until everything is recorded, and tell whether it is.
   *
   * Without patience, it waits only while runs are being sent, and not for an ERL that is away.
   */
  async flush(seconds: number, { patient = true } = {}): Promise<boolean> {
    const deadline = Date.now() + seconds * 1000;
    [this.#failures, this.#pausedUntil] = [0, 0];
    this.start();
    while (!(await this.isEmpty())) {
      const isPausing = this.#failures > 0 || Date.now() < this.#notBefore;
      if (this.#closed || Date.now() >= deadline || (!patient && isPausing && !this.#isBusy)) return false;
      this.start();
      await new Promise((resolve) => setTimeout(resolve, POLL_SECONDS * 1000));
    }
    return true;
  }

  /** Give the runs that wait a moment to be recorded. What is left stays in the spool. */
  async close(seconds: number): Promise<void> {
    if (!(await this.isEmpty())) await this.flush(seconds, { patient: false });
    this.#closed = true;
    clearTimeout(this.#timer);
  }

  get #isBusy(): boolean {
    return Date.now() < this.#busyUntil;
  }

  #keepBusy(): void {
    this.#busyUntil = Date.now() + LEASE_SECONDS * 1000;
  }

  /** Send all that waits, and see to what could not be sent. Never rejects. */
  async #work(): Promise<void> {
    try {
      await this.#sendAll();
    } catch (error) {
      this.#pause(error);
    }
    this.#busyUntil = 0;
    if (!(await this.isEmpty())) this.start(); // put meanwhile, or left by a failure
  }

  async #sendAll(): Promise<void> {
    for (const spool of this.#spools) {
      if ((await list(spool)).length === 0) continue;
      const lock = await spool.lock();
      if (!lock) {
        this.#pausedUntil = Date.now() + LOCKED_PAUSE_SECONDS * 1000; // another process sends, ours as well as its own
        continue;
      }
      try {
        for (let runs = await list(spool); runs.length && !this.#closed; runs = await list(spool)) {
          for (const run of runs) {
            if (this.#closed) return;
            this.#keepBusy();
            await lock.keep();
            await this.#sendOne(spool, run);
          }
        }
      } finally {
        await lock.release();
      }
    }
  }

  async #sendOne(spool: Spool, run: WaitingRun): Promise<void> {
    let body: Json | undefined;
    try {
      body = await run.read();
    } catch (error) {
      await spool.setAside(run, `The file cannot be read: ${describeError(error)}`);
      return;
    }
    if (!body) return; // made room, or sent by another
    const refused = await this.#post(body, run.key);
    if (refused) {
      await spool.setAside(run, refused.message);
      this.#warn(`ERL refused a run, which is set aside in ${spool.place}. ${refused.message}`);
    } else {
      await spool.remove(run);
    }
  }

  /** Record a run, or return why ERL will not have it. */
  async #post(body: Json, key: string): Promise<Refused | undefined> {
    try {
      const answer = await this.#api.post("/trajectories", body, { idempotencyKey: key, holdsProcess: false });
      if (!("id" in answer)) {
        throw new Unavailable("The server at ERL's address did not record the run; check ERL_URL.");
      }
    } catch (error) {
      if (!(error instanceof Refused) || error.isAboutTheKey) throw error;
      this.lastError = error;
      return error;
    }
    [this.#failures, this.lastError] = [0, undefined];
    return undefined;
  }

  #pause(error: unknown): void {
    const reason =
      error instanceof ERLError ? error : new Unavailable(`The spool cannot be read: ${describeError(error)}`);
    if (!this.#failures) this.#warn(`Runs wait until ERL is reachable again. ${reason.message}`);
    const seconds = Math.min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** this.#failures);
    this.lastError = reason;
    this.#failures = Math.min(this.#failures + 1, 30);
    this.#pausedUntil = Date.now() + seconds * 1000 * (0.75 + Math.random() / 2); // spreads clients out
    if (reason instanceof Unavailable && reason.retryAfterSeconds !== undefined) {
      this.#notBefore = Date.now() + Math.min(reason.retryAfterSeconds, MAX_RETRY_AFTER_SECONDS) * 1000;
    }
  }
}

/** Return the runs that wait in a spool, none if it cannot be read: then none were written either. */
function list(spool: Spool): Promise<WaitingRun[]> {
  return spool.waiting().catch(() => []);
}
