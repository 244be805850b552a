/**
 * HTTP to the nodes: small calls, bounded as a whole, and the beginnings of large transfers, which have bounds of
 * their own (backup/transfer.ts). Whatever fails is one sentence that names the address.
 */
import { setMaxListeners } from 'node:events';
import {
  type Agent,
  type ClientRequest,
  type IncomingMessage,
  request as httpRequest,
  validateHeaderValue,
} from 'node:http';
import { request as httpsRequest } from 'node:https';
import { Failure, Interrupted } from './failure.ts';
import { type Json, isObject } from './report.ts';

export interface ClientOptions {
  /** The time that a small call may take. */
  readonly timeoutMs: number;
  /** Longest answer to one; TEXT_BYTES_MAX when left out. */
  readonly textBytesMax?: number;
  /** Bearer token of the admin planes. */
  readonly token: string | undefined;
  /** PEM: nodes are believed whose certificates lead to one of these. Undefined: those that Node.js knows. */
  readonly ca: string | undefined;
  /** PEM: certificate and key that admin planes are shown, where they ask. */
  readonly identity?: string | undefined;
  /** Ends everything that is under way, with Interrupted. */
  readonly signal: AbortSignal;
}

/** Keeps connections, for many calls in a row. */
export interface Agents {
  readonly 'http:': Agent;
  readonly 'https:': Agent;
}

export interface HttpReply {
  readonly status: number;
  readonly text: string;
  /** A bearer token went along. */
  readonly hadToken: boolean;
}

export interface Manner {
  /** The token goes along; not to client planes, which have one of their own. */
  readonly withToken: boolean;
  /** An interruption of the tool ends the call. */
  readonly mayEnd: boolean;
  /** The request's body, small. */
  readonly json?: string;
}

/** Metrics of many groups are some hundred KiB. */
const TEXT_BYTES_MAX = 16 * 1024 * 1024;
/** A sentence about a cold object has its key, of 255 at most, and why and what to change behind it. */
const SHOWN_CHARS_MAX = 1000;
/** A refusal in text. */
const REFUSAL_BYTES_MAX = 64 * 1024;

/** A whole answer, within the timeout. Redirects are answers like others. */
export async function ask(
  options: ClientOptions,
  method: string,
  url: string,
  { withToken, mayEnd, json }: Manner,
): Promise<HttpReply> {
  const { timeoutMs, signal, textBytesMax = TEXT_BYTES_MAX } = options;
  const end = new CallEnd(timeoutMs, mayEnd ? signal : undefined);
  try {
    const token = withToken ? options.token : undefined;
    const headers =
      json === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(json) };
    const request = open({ ...options, token }, { method, url, headers, signal: end.signal });
    const answer = answerTo(request);
    request.end(json);
    return await readReply(await answer, { token, textBytesMax });
  } catch (error) {
    if (mayEnd && signal.aborted) throw new Interrupted();
    if (end.signal.aborted) throw new Failure(`${originOf(url)} did not answer within ${timeoutMs / 1000} s`);
    throw unreachable(url, error);
  } finally {
    end.over();
  }
}

/**
 * Ends a call that takes too long, or with a signal that lives on. `AbortSignal.any` would leave 1.3 KiB at that one for
 * each call (Node 20), and an exporter calls for months.
 */
export class CallEnd {
  readonly #abort = new AbortController();
  readonly #stop: AbortSignal | undefined;
  readonly #end = (): void => this.#abort.abort();

  constructor(mostMs: number, stop: AbortSignal | undefined) {
    const late = AbortSignal.timeout(mostMs);
    late.addEventListener('abort', () => this.#abort.abort(late.reason));
    this.#stop = stop;
    if (stop === undefined) return;
    setMaxListeners(0, stop);
    stop.addEventListener('abort', this.#end);
    if (stop.aborted) this.#end();
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  over(): void {
    this.#stop?.removeEventListener('abort', this.#end);
  }
}

export interface RequestHead {
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string | number>>;
  readonly signal: AbortSignal;
}

/** No repeat mends it. */
export class BadHeader extends Failure {}

const TOKEN_HEADER = 'authorization';

/** Values come from files, other servers and people. Throws BadHeader. */
function checkHeaders(headers: RequestHead['headers']): void {
  for (const [name, value] of Object.entries(headers)) {
    try {
      validateHeaderValue(name, String(value));
    } catch {
      const shown = name === TOKEN_HEADER ? 'the bearer token' : `${name}, ${JSON.stringify(value)},`;
      throw new BadHeader(`${shown} has characters that no header may have`);
    }
  }
}

/** A request whose body is the caller's to send. Throws BadHeader. */
export function open(
  {
    token,
    ca,
    identity,
    agents,
  }: Pick<ClientOptions, 'token' | 'ca' | 'identity'> & { readonly agents?: Agents | undefined },
  { method, url, headers, signal }: RequestHead,
): ClientRequest {
  const isTls = url.startsWith('https:');
  // As it is written: a URL resolves `.` and `..`, which may be names, and the call would go to another route.
  const path = /^https?:\/\/[^/]*(\/[!-~]*)$/.exec(url)?.[1];
  const all = token === undefined ? headers : { ...headers, [TOKEN_HEADER]: `Bearer ${token}` };
  checkHeaders(all);
  return (isTls ? httpsRequest : httpRequest)(url, {
    method,
    ...(path === undefined ? {} : { path }),
    signal,
    // Else a connection each: one that is kept may be closed by the node just when it is used again.
    agent: agents?.[isTls ? 'https:' : 'http:'] ?? false,
    headers: all,
    ...(isTls && ca !== undefined ? { ca } : {}),
    ...(isTls && identity !== undefined ? { cert: identity, key: identity } : {}),
  });
}

/** Rejects with what the request fails with, as it is. */
export function answerTo(request: ClientRequest): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    request.once('response', resolve);
    // For good: what fails after the answer is the answer's failure too.
    request.on('error', reject);
  });
}

/** `token`: what the request carried. */
export async function readReply(
  answer: IncomingMessage,
  { token, textBytesMax = TEXT_BYTES_MAX }: Pick<ClientOptions, 'token' | 'textBytesMax'>,
): Promise<HttpReply> {
  let text = '';
  for await (const piece of answer.setEncoding('utf8') as AsyncIterable<string>) {
    text += piece;
    if (text.length > textBytesMax) throw new Error('its answer does not end');
  }
  return { status: answer.statusCode ?? 0, text, hadToken: token !== undefined };
}

/** All pieces as one buffer. More bytes than `bytesMax` throw what `tooLong` makes. */
export async function wholeOf(
  pieces: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  bytesMax: number,
  tooLong: () => Error,
): Promise<Buffer> {
  const all: Uint8Array[] = [];
  let bytes = 0;
  for await (const piece of pieces) {
    bytes += piece.length;
    if (bytes > bytesMax) throw tooLong();
    all.push(piece);
  }
  return Buffer.concat(all);
}

export function unreachable(url: string, error: unknown): Failure {
  return error instanceof Failure
    ? error
    : new Failure(`${originOf(url)} cannot be reached (${causeOf(error)})`, undefined, { cause: error });
}

/** Something answers, but the token or the cluster file is wrong: no wait mends that. */
export class Mistake extends Failure {}

/** The node's own sentence, or its status. */
export function refusal({ status, text, hadToken }: HttpReply): string {
  const [, why] = /: (the token (?:has expired|was revoked))$/m.exec(text) ?? [];
  if (status === 401 && hadToken && why !== undefined)
    return `it refuses the bearer token of MILLRACE_ADMIN_TOKEN or --token-file: ${why}`;
  if (status === 401 && hadToken) return 'it has another bearer token than MILLRACE_ADMIN_TOKEN or --token-file gives';
  if (status === 401) return 'it wants a bearer token: set MILLRACE_ADMIN_TOKEN or give --token-file';
  return answered(status, reasonIn(text) ?? firstLineOf(text));
}

/** `said`: what came with it, if anything. */
export function answered(status: number, said: string): string {
  return `it answered ${status}${said === '' ? '' : ` (${said.slice(0, SHOWN_CHARS_MAX)})`}`;
}

export function firstLineOf(text: string): string {
  return text.trim().split('\n')[0] ?? '';
}

/** Any server's words of a refusal. Pages are for browsers. */
export async function saidBy(answer: IncomingMessage): Promise<string> {
  const { statusCode: status = 0, headers } = answer;
  if (headers['content-type']?.startsWith('text/plain') !== true) {
    answer.resume();
    return answered(status, '');
  }
  const text = await wholeOf(answer, REFUSAL_BYTES_MAX, () => new Error('too long')).catch(() => '');
  return answered(status, firstLineOf(text.toString()));
}

/** The `reason` of an answer in JSON. */
export function reasonIn(text: string): string | undefined {
  const { reason } = membersOf(text);
  return typeof reason === 'string' ? reason : undefined;
}

/** Members of a JSON object. A text that is not one has none. */
export function membersOf(text: string): Json {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}

/** How long an answer asks to wait. Dates are not read: clocks differ. */
export function retryAfterMs({ headers }: Pick<IncomingMessage, 'headers'>): number {
  const seconds = headers['retry-after'] ?? '';
  return /^\d{1,9}$/.test(seconds) ? Math.min(RETRY_AFTER_MS_MAX, Number(seconds) * 1000) : 0;
}

/** Whatever a server asks for: a person looks at the tool. */
const RETRY_AFTER_MS_MAX = 30_000;

export function originOf(url: string): string {
  return new URL(url).origin;
}

/** In words, where the code has some. A name with several addresses fails with a list of errors. */
export function causeOf(error: unknown): string {
  const { code, errors, message } = error as { code?: unknown; errors?: readonly unknown[]; message?: unknown };
  if (typeof code === 'string' && Object.hasOwn(CODES, code)) return String(CODES[code]);
  if (errors?.[0] !== undefined) return causeOf(errors[0]);
  if (typeof code === 'string' && code.startsWith('HPE_'))
    return 'what answers there does not speak plain HTTP; is its address https://?';
  return typeof code === 'string' ? code : String(message);
}

const UNKNOWN_CERTIFICATE = 'its certificate is not known here; --ca-file names a file with its authority';

const REFUSED_CERTIFICATE = 'it does not take this client certificate; --cert-file names one with its key';

const CODES: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection lost',
  EPIPE: 'connection lost',
  ENOTFOUND: 'unknown host name',
  EAI_AGAIN: 'unknown host name',
  EHOSTUNREACH: 'no route to the host',
  ENETUNREACH: 'no route to the network',
  ETIMEDOUT: 'no connection',
  // OpenSSL's words for plain HTTP.
  EPROTO: 'it does not speak TLS; is its address http://?',
  ERR_SSL_WRONG_VERSION_NUMBER: 'it does not speak TLS; is its address http://?',
  ERR_SSL_PACKET_LENGTH_TOO_LONG: 'it does not speak TLS; is its address http://?',
  ERR_TLS_CERT_ALTNAME_INVALID: 'its certificate is for another name',
  ERR_SSL_TLSV1_ALERT_UNKNOWN_CA: REFUSED_CERTIFICATE,
  ERR_SSL_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE: REFUSED_CERTIFICATE,
  ERR_SSL_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    'this client certificate has ended, or its authority in http.admin_client_ca_file of that node has; renew it',
  CERT_HAS_EXPIRED: 'its certificate has expired, or the authority of it in --ca-file has',
  DEPTH_ZERO_SELF_SIGNED_CERT: UNKNOWN_CERTIFICATE,
  SELF_SIGNED_CERT_IN_CHAIN: UNKNOWN_CERTIFICATE,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNKNOWN_CERTIFICATE,
  UNABLE_TO_GET_ISSUER_CERT: UNKNOWN_CERTIFICATE,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: UNKNOWN_CERTIFICATE,
};
