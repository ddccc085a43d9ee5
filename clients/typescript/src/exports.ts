export { ERLError, Refused, Unavailable } from "./api.js";
export type { Options, Outcome } from "./client.js";
export { Run } from "./run.js";
export type { Judgement, Lesson, Lessons, RunOptions, Source, Step } from "./run.js";
