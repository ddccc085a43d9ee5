/**
 * Runs on disk, one file each. The Python client has the same folder and files: either sends what the other left.
 *
 * A run is here before the block that made it ends, and until ERL has answered: a process may die at any moment.
 */

import { createHash, randomUUID } from "node:crypto";
import { mkdir, open, readFile, readdir, rename, rm, stat, utimes, writeFile } from "node:fs/promises";
import { homedir, tmpdir } from "node:os";
import { basename, join } from "node:path";

import { isObject, type Destination, type Json } from "./api.js";
import { LEASE_SECONDS, type Lock, type Spool, type WaitingRun } from "./spool.js";

const MAX_RUNS = 1_000;
const MAX_BYTES = 200_000_000;
const MAX_REFUSED = 100;

/** Return the folder of the runs for one project: `ERL_SPOOL`, or else the user's state folder. */
export function spoolFolder(destination: Destination): string {
  const root = process.env.ERL_SPOOL || join(stateFolder(), "erl", "spool");
  const name = createHash("sha256").update(`${destination.url}\n${destination.apiKey}`).digest("hex").slice(0, 16);
  return join(root, name);
}

function stateFolder(): string {
  const folder = process.platform === "win32" ? process.env.LOCALAPPDATA : process.env.XDG_STATE_HOME;
  if (folder) return folder;
  try {
    return join(homedir(), ".local", "state");
  } catch {
    return tmpdir(); // a user without a home, as in some containers
  }
}

export class DiskSpool implements Spool {
  readonly #refused: string;
  readonly #lockFile: string;
  #lastNs = 0n;

  constructor(readonly place: string) {
    this.#refused = join(place, "refused");
    this.#lockFile = join(place, "sending.node");
  }

  async add(run: Json, key: string): Promise<number> {
    await mkdir(this.#refused, { mode: 0o700, recursive: true });
    const now = BigInt(Date.now()) * 1_000_000n;
    this.#lastNs = now > this.#lastNs ? now : this.#lastNs + 1n;
    const path = join(this.place, `${String(this.#lastNs).padStart(20, "0")}-${key}`);
    await writeFile(`${path}.part`, JSON.stringify(run), { flag: "wx", mode: 0o600 });
    await rename(`${path}.part`, `${path}.json`);
    return this.#makeRoom();
  }

  async waiting(): Promise<WaitingRun[]> {
    const names = await listRuns(this.place);
    return names.map((name) => {
      const key = basename(name, ".json").replace(/^\d+-/, "");
      return { name, key, read: () => readRun(join(this.place, name)) };
    });
  }

  async remove(run: WaitingRun): Promise<void> {
    await rm(join(this.place, run.name), { force: true });
  }

  async setAside(run: WaitingRun, reason: string): Promise<void> {
    await rename(join(this.place, run.name), join(this.#refused, run.name)).catch(ignoreMissing);
    await writeFile(join(this.#refused, asReason(run.name)), `${reason}\n`);
    for (const name of (await listRuns(this.#refused)).slice(0, -MAX_REFUSED)) {
      await rm(join(this.#refused, name), { force: true });
      await rm(join(this.#refused, asReason(name)), { force: true });
    }
  }

  /**
   * Node cannot lock a file, unlike the Python client. A file with the id of a process keeps two Node processes from
   * sending the same runs. If a run is sent twice after all, its key lets ERL record it once.
   */
  async lock(): Promise<Lock | undefined> {
    await mkdir(this.place, { mode: 0o700, recursive: true });
    const token = `${process.pid} ${randomUUID()}`;
    if (!(await create(this.#lockFile, token))) {
      if (!(await isAbandoned(this.#lockFile))) return undefined;
      await rm(this.#lockFile, { force: true });
      if (!(await create(this.#lockFile, token))) return undefined;
    }
    held.add(token);
    return {
      keep: () => utimes(this.#lockFile, new Date(), new Date()).catch(ignoreMissing),
      release: async () => {
        held.delete(token);
        const owner = await readFile(this.#lockFile, "utf8").catch(ignoreMissing);
        if (owner === token) await rm(this.#lockFile, { force: true });
      },
    };
  }

  async #makeRoom(): Promise<number> {
    const sizes: { run: WaitingRun; bytes: number }[] = [];
    for (const run of await this.waiting()) {
      const file = await stat(join(this.place, run.name)).catch(ignoreMissing);
      if (file) sizes.push({ run, bytes: file.size });
    }
    let total = sizes.reduce((sum, { bytes }) => sum + bytes, 0);
    let dropped = 0;
    while (sizes.length > 1 && (sizes.length > MAX_RUNS || total > MAX_BYTES)) {
      const oldest = sizes.shift();
      if (!oldest) break;
      await this.remove(oldest.run);
      total -= oldest.bytes;
      dropped += 1;
    }
    return dropped;
  }
}

const held = new Set<string>(); // the locks of this process: after a restart, another may have its id

/** Tell whether the process that made a lock is gone, or has not kept it. */
async function isAbandoned(path: string): Promise<boolean> {
  const owner = await readFile(path, "utf8").catch(ignoreMissing);
  const file = await stat(path).catch(ignoreMissing);
  if (owner === undefined || !file) return true;
  if (Date.now() - file.mtimeMs > LEASE_SECONDS * 1000) return true;
  const pid = Number.parseInt(owner, 10);
  if (!pid) return false; // it is being written
  if (pid === process.pid) return !held.has(owner);
  try {
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ESRCH";
  }
}

async function create(path: string, content: string): Promise<boolean> {
  try {
    const file = await open(path, "wx", 0o600);
    await file.writeFile(content).finally(() => file.close());
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}

async function readRun(path: string): Promise<Json | undefined> {
  const content = await readFile(path, "utf8").catch(ignoreMissing);
  if (content === undefined) return undefined;
  const run: unknown = JSON.parse(content);
  if (!isObject(run)) throw new Error("The file does not hold a run.");
  return run;
}

async function listRuns(folder: string): Promise<string[]> {
  const names = (await readdir(folder).catch(ignoreMissing)) ?? [];
  return names.filter((name) => name.endsWith(".json")).sort();
}

function asReason(name: string): string {
  return name.replace(/\.json$/, ".txt");
}

function ignoreMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== "ENOENT") throw error;
  return undefined;
}
