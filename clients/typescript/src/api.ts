/** Requests to ERL, and what its answers mean for the sender. */

/** Something between this agent and ERL went wrong. Only thrown with `strict: true`. */
export class ERLError extends Error {
  override name = "ERLError";
}

/** ERL did not answer, or asked to be left alone for a while. The same request may succeed later. */
export class Unavailable extends ERLError {
  override name = "Unavailable";

  constructor(
    message: string,
    /** What ERL asked for; undefined if it did not. */
    readonly retryAfterSeconds?: number,
  ) {
    super(message);
  }
}

/** ERL read the request and will not accept it. Sending it again changes nothing. */
export class Refused extends ERLError {
  override name = "Refused";

  constructor(
    message: string,
    readonly status: number,
    readonly code: string,
  ) {
    super(message);
  }

  /** Whether the API key is refused, not the request. */
  get isAboutTheKey(): boolean {
    return this.status === 401 || this.status === 403;
  }
}

/** The address of ERL and the API key. */
export interface Destination {
  readonly url: string;
  readonly apiKey: string;
}

export interface HttpRequest {
  method: "GET" | "POST";
  url: string;
  headers: Record<string, string>;
  body?: string;
  timeoutMs: number;
  /** Whether a process that has nothing else to do waits for the answer. */
  holdsProcess: boolean;
}

export interface HttpResponse {
  status: number;
  retryAfter: string | null;
  text: string;
}

/** Sends one request and follows no redirect. Rejects if there is no whole answer in time. */
export type Transport = (request: HttpRequest) => Promise<HttpResponse>;

export type Json = Record<string, unknown>;

export interface PostOptions {
  idempotencyKey?: string;
  timeoutSeconds?: number;
  holdsProcess?: boolean;
}

/** The HTTP API of one ERL. The key is private, so that it cannot end up in a log. */
export class Api {
  readonly url: string;
  readonly #apiKey: string;
  readonly #send: Transport;
  readonly #timeoutSeconds: number;

  constructor(destination: Destination, transport: Transport, timeoutSeconds: number) {
    this.url = destination.url;
    this.#apiKey = destination.apiKey;
    this.#send = transport;
    this.#timeoutSeconds = timeoutSeconds;
  }

  get hasKey(): boolean {
    return this.#apiKey !== "";
  }

  /** Return the answer to a GET. Rejects with Unavailable or Refused. */
  get(path: string, timeoutSeconds?: number): Promise<Json> {
    return this.#request("GET", path, undefined, timeoutSeconds === undefined ? {} : { timeoutSeconds });
  }

  /** Return the answer to a POST. Rejects with Unavailable or Refused. */
  post(path: string, body: Json, options: PostOptions = {}): Promise<Json> {
    return this.#request("POST", path, JSON.stringify(body), options);
  }

  async #request(method: "GET" | "POST", path: string, body: string | undefined, options: PostOptions): Promise<Json> {
    const headers: Record<string, string> = {
      Authorization: `Bearer ${this.#apiKey}`,
      "User-Agent": "erl-client-typescript",
    };
    if (body !== undefined) headers["Content-Type"] = "application/json";
    if (options.idempotencyKey) headers["Idempotency-Key"] = options.idempotencyKey;
    let response: HttpResponse;
    try {
      response = await this.#send({
        method,
        url: `${this.url}/api/v1${path}`,
        headers,
        ...(body === undefined ? {} : { body }),
        timeoutMs: (options.timeoutSeconds ?? this.#timeoutSeconds) * 1000,
        holdsProcess: options.holdsProcess ?? true,
      });
    } catch (error) {
      throw new Unavailable(`ERL at ${this.url} cannot be reached: ${describeError(error)}`);
    }
    return readAnswer(response);
  }
}

function readAnswer(response: HttpResponse): Json {
  const { status } = response;
  const answer = parseObject(response.text);
  if (status >= 200 && status < 300 && answer) return answer;
  const error = answer?.error as Json | undefined;
  if (status === 413 && typeof error?.code !== "string") {
    // Trying again cannot help.
    throw new Refused(
      "A proxy before ERL refuses a request of this size. Let it pass as much as ERL_API_MAX_REQUEST_BYTES says " +
        "(in nginx, client_max_body_size).",
      413,
      "request_too_large",
    );
  }
  const wait = readSeconds(response.retryAfter);
  if (typeof error?.code !== "string") {
    throw new Unavailable(`ERL answered ${status}, but not in the form of its API.`, wait);
  }
  const message = `ERL answered ${status} ${error.code}: ${error.message ?? ""}`;
  if (error.retryable || status === 429 || status >= 500) throw new Unavailable(message, wait);
  throw new Refused(message, status, error.code);
}

function parseObject(text: string): Json | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Return the seconds of a Retry-After header. ERL sends no dates there. */
function readSeconds(header: string | null): number | undefined {
  const seconds = header ? Number(header) : NaN;
  return Number.isFinite(seconds) ? Math.max(0, seconds) : undefined;
}

export function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function describeError(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const name = error.name === "Error" ? error.constructor.name : error.name; // the SDKs name their classes only
  return error.message ? `${name}: ${error.message}` : name;
}
