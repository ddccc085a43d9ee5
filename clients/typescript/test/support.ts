/** What the tests share: the real ERL that ERL_URL names, clients with a spool of their own, servers with a fault. */

import assert from "node:assert/strict";
import { mkdtempSync } from "node:fs";
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";

import { ERL, type Options } from "erl-client";

export const TASK = "Cancel reservation EHGLP3.";
export const LESSON = "Read the fare class first.";
export const ANSWER = "It cannot be cancelled.";
export const LOOK = { name: "get_reservation", arguments: { id: "EHGLP3" } };
export const SAY = { name: "respond", arguments: { content: ANSWER } };
export const PROVIDER = process.env.PROVIDER_URL ?? "";

const rejections: unknown[] = [];
process.on("unhandledRejection", (reason) => rejections.push(reason));
after(() => assert.deepEqual(rejections, []));

/** Make a client that waits as long as a busy machine needs. */
export function makeClient(options: Options = {}): ERL {
  return new ERL({ budgetSeconds: 60, spool: makeFolder(), ...options });
}

export function makeFolder(): string {
  return mkdtempSync(join(tmpdir(), "erl-"));
}

export interface Recorded {
  id: string;
  task: string;
  task_id: string;
  agent: string;
  outcome: string;
  outcome_source: string;
  score: number | null;
  tokens: number | null;
  model: string;
  tools: unknown[];
  system_prompt: string;
  tags: string[];
  user_id: string;
  retrieval_id: string | null;
  parent_id: string | null;
  metadata: Record<string, unknown>;
  steps: Step[];
}

export interface Step {
  thought: string;
  action: { name: string; arguments: Record<string, unknown> } | null;
  observation: string;
  error: string;
}

/** Return what ERL recorded of a run, once it has been sent. */
export async function recorded(erl: ERL, externalId: string): Promise<Recorded> {
  assert.equal(await erl.flush(60), true);
  const runs = await listRecorded(`external_id=${externalId}`);
  assert.equal(runs.length, 1);
  return (await ask(`/trajectories/${runs[0]?.id}`)) as Recorded;
}

export async function listRecorded(query: string): Promise<Recorded[]> {
  return ((await ask(`/trajectories?${query}`)) as { results: Recorded[] }).results;
}

async function ask(path: string): Promise<unknown> {
  const headers = { Authorization: `Bearer ${process.env.ERL_API_KEY}` };
  const response = await fetch(`${process.env.ERL_URL}/api/v1${path}`, { headers });
  assert.equal(response.status, 200);
  return response.json();
}

export function actions(run: Recorded): unknown[] {
  return run.steps.map((step) => step.action).filter((action) => action !== null);
}

export function errors(run: Recorded): string[] {
  return run.steps.map((step) => step.error).filter((error) => error !== "");
}

/** Serve what a test wants ERL to be, and note the paths that it was asked for. */
export async function serve(listener: RequestListener): Promise<{ url: string; paths: string[]; server: Server }> {
  const paths: string[] = [];
  const server = createServer((request, response) => {
    paths.push(request.url ?? "");
    request.resume();
    listener(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, paths, server };
}

/** Return how many milliseconds something took. */
export async function time(act: () => Promise<unknown>): Promise<number> {
  const began = Date.now();
  await act();
  return Date.now() - began;
}

export { test };
