/** The client for Node.js: runs wait on disk, and the current run follows the code through its promises. */

import { AsyncLocalStorage } from "node:async_hooks";
import { readFileSync } from "node:fs";
import { request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { homedir } from "node:os";
import { join } from "node:path";

import { isObject, type HttpRequest, type HttpResponse } from "./api.js";
import { Client, type Options, type Platform } from "./client.js";
import { DiskSpool, spoolFolder } from "./disk.js";
import type { Run } from "./run.js";

export * from "./exports.js";

const MAX_ANSWER_BYTES = 16 * 1024 * 1024;
const storage = new AsyncLocalStorage<Run>();
const exits = new Set<() => Promise<void>>();

const node: Platform = {
  transport: send,
  sendingTimeoutSeconds: 30,
  storage,
  env: (name) => process.env[name],
  readCredentials,
  makeSpool: (destination, folder) => new DiskSpool(folder || spoolFolder(destination)),
  isDurable: true,
  atExit(act) {
    if (exits.size === 0) process.on("beforeExit", endAll);
    exits.add(act);
    return () => {
      exits.delete(act);
      if (exits.size === 0) process.off("beforeExit", endAll);
    };
  },
};

/** Gives an agent the lessons of its earlier runs, and records how each run went. */
export class ERL extends Client {
  constructor(options: Options = {}) {
    super(options, node);
  }
}

/** Return the run that this code is in, undefined outside of one. */
export function currentRun(): Run | undefined {
  return storage.getStore();
}

/** Let the clients send their last runs. Once: a process ends when nothing happens after this. */
function endAll(): void {
  for (const act of exits) act().catch(() => undefined);
  exits.clear();
  process.off("beforeExit", endAll);
}

/** Send a request over a connection of its own. `fetch` cannot let a process end while it waits. */
function send(request: HttpRequest): Promise<HttpResponse> {
  return new Promise((resolve, reject) => {
    const start = request.url.startsWith("https:") ? requestHttps : requestHttp;
    const sent = start(request.url, { method: request.method, headers: request.headers, agent: false });
    const timeout = (): void => void sent.destroy(new Error(`no answer within ${request.timeoutMs / 1000} seconds`));
    const timer = setTimeout(timeout, request.timeoutMs);
    if (!request.holdsProcess) {
      timer.unref();
      sent.on("socket", (socket) => socket.unref());
    }
    sent.on("error", reject);
    sent.on("close", () => {
      clearTimeout(timer);
      reject(new Error("the connection was closed")); // without effect after an answer
    });
    sent.on("response", (response) => {
      const chunks: Buffer[] = [];
      let bytes = 0;
      response.on("error", reject);
      response.on("data", (chunk: Buffer) => {
        bytes += chunk.length;
        if (bytes > MAX_ANSWER_BYTES) sent.destroy(new Error("the answer is too large"));
        chunks.push(chunk);
      });
      response.on("end", () => {
        const retryAfter = response.headers["retry-after"] ?? null;
        resolve({ status: response.statusCode ?? 0, retryAfter, text: Buffer.concat(chunks).toString("utf8") });
      });
    });
    sent.end(request.body);
  });
}

/** Return what `erl login` of the Python client stored. */
function readCredentials(): { url?: string; api_key?: string } {
  try {
    const roots = process.platform === "win32" ? [process.env.APPDATA] : [process.env.XDG_CONFIG_HOME];
    const root = roots[0] || (process.platform === "win32" ? homedir() : join(homedir(), ".config"));
    const stored: unknown = JSON.parse(readFileSync(join(root, "erl", "credentials.json"), "utf8"));
    return isObject(stored) ? stored : {};
  } catch {
    return {};
  }
}
