/** The client for edge runtimes and any other that has `fetch`: runs wait in memory. */

import { Client, type Options, type Platform, type RunStorage } from "./client.js";
import type { HttpRequest, HttpResponse } from "./api.js";
import type { Run } from "./run.js";
import { MemorySpool } from "./spool.js";

export * from "./exports.js";

interface Globals {
  AsyncLocalStorage?: new () => RunStorage;
  process?: {
    env?: Record<string, string | undefined>;
    getBuiltinModule?: (name: string) => { AsyncLocalStorage?: new () => RunStorage } | undefined;
  };
}

const globals = globalThis as Globals;
const storage = findStorage();

const edge: Platform = {
  transport: send,
  sendingTimeoutSeconds: 10,
  storage,
  env: (name) => globals.process?.env?.[name],
  readCredentials: () => ({}),
  makeSpool: () => new MemorySpool(),
  isDurable: false,
  atExit: () => () => undefined,
};

/** Gives an agent the lessons of its earlier runs, and records how each run went. */
export class ERL extends Client {
  constructor(options: Options = {}) {
    super(options, edge);
  }
}

/** Return the run that this code is in. Undefined outside of one, and on runtimes without AsyncLocalStorage. */
export function currentRun(): Run | undefined {
  return storage?.getStore();
}

/** Vercel's runtime has it as a global, Cloudflare's with `nodejs_compat` as a module. */
function findStorage(): RunStorage | undefined {
  const Storage =
    globals.AsyncLocalStorage ?? globals.process?.getBuiltinModule?.("node:async_hooks")?.AsyncLocalStorage;
  return Storage ? new Storage() : undefined;
}

async function send(request: HttpRequest): Promise<HttpResponse> {
  const response = await fetch(request.url, {
    method: request.method,
    headers: request.headers,
    redirect: "manual",
    signal: AbortSignal.timeout(request.timeoutMs),
    ...(request.body === undefined ? {} : { body: request.body }),
  });
  return { status: response.status, retryAfter: response.headers.get("Retry-After"), text: await response.text() };
}
