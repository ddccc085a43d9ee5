/** Runs that ERL has not recorded yet, in the order in which they ended. */

import type { Json } from "./api.js";

/** A run that waits. `key` is the same each time it is sent. */
export interface WaitingRun {
  readonly name: string;
  readonly key: string;
  /** Return the run, undefined if it is gone. Rejects if it cannot be read. */
  read(): Promise<Json | undefined>;
}

export interface Spool {
  /** Where the runs are, for a person. */
  readonly place: string;
  /** Keep a run, and return how many older ones had to make room. Rejects if it cannot be kept. */
  add(run: Json, key: string): Promise<number>;
  /** Return the runs that wait, the oldest first. */
  waiting(): Promise<WaitingRun[]>;
  remove(run: WaitingRun): Promise<void>;
  /** Keep a run that cannot be recorded, with the reason beside it, out of the way of the others. */
  setAside(run: WaitingRun, reason: string): Promise<void>;
  /** Take the lock on sending; undefined if another process has it. A process that dies loses it. */
  lock(): Promise<Lock | undefined>;
}

/** The right to send. It has to be kept before each run, and is given back at the end. */
export interface Lock {
  keep(): Promise<void>;
  release(): Promise<void>;
}

const MAX_RUNS_IN_MEMORY = 100;
export const LEASE_SECONDS = 60; // longer than any request

/** Runs that are lost when the process ends, where nothing can be written. */
export class MemorySpool implements Spool {
  readonly place = "memory";
  readonly #runs: WaitingRun[] = [];
  #lockedUntil = 0;

  async add(run: Json, key: string): Promise<number> {
    this.#runs.push({ name: key, key, read: async () => run });
    return this.#runs.splice(0, this.#runs.length - MAX_RUNS_IN_MEMORY).length;
  }

  async waiting(): Promise<WaitingRun[]> {
    return [...this.#runs];
  }

  async remove(run: WaitingRun): Promise<void> {
    const index = this.#runs.indexOf(run);
    if (index >= 0) this.#runs.splice(index, 1);
  }

  async setAside(run: WaitingRun): Promise<void> {
    await this.remove(run);
  }

  /** A lease: an edge runtime may end a request, and what it was doing, at any await. */
  async lock(): Promise<Lock | undefined> {
    if (Date.now() < this.#lockedUntil) return undefined;
    const keep = async (): Promise<void> => {
      this.#lockedUntil = Date.now() + LEASE_SECONDS * 1000;
    };
    await keep();
    return {
      keep,
      release: async () => {
        this.#lockedUntil = 0;
      },
    };
  }
}
