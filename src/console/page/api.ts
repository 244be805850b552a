/** Requests of the page. Each has a bound in time and in bytes, and fails with one sentence. */

/** The page of one node, or that of `millracectl console` for a whole cluster. */
export type PageKind = 'node' | 'cluster';

export function kindOfPage(): PageKind {
  return document.documentElement.dataset['console'] === 'cluster' ? 'cluster' : 'node';
}

/** The outcome of a request. */
export interface PageAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly bytes: Uint8Array;
  /** There was more than the page wanted. */
  readonly isCut: boolean;
}

export interface Ask {
  readonly method?: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'DELETE';
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly timeoutMs?: number;
  readonly bytesMax?: number;
  readonly signal?: AbortSignal;
}

/** No answer came, or none that the page may have: the message says why. */
export class NoAnswer extends Error {
  /** The token is missing or wrong. */
  readonly isLocked: boolean;

  constructor(message: string, reason: 'locked' | 'failed' = 'failed') {
    super(message);
    this.isLocked = reason === 'locked';
  }
}

const TIMEOUT_MS = 10_000;
const BYTES_MAX = 4 * 1024 * 1024;
/** The token belongs to this tab only and is gone with it. */
const TOKEN = 'millrace-token';

export class Api {
  readonly #kind: PageKind;
  #token: string;

  constructor(kind: PageKind) {
    this.#kind = kind;
    this.#token = tokenOfAddress() ?? sessionStorage.getItem(TOKEN) ?? '';
    if (this.#token !== '') sessionStorage.setItem(TOKEN, this.#token);
  }

  get hasToken(): boolean {
    return this.#token !== '';
  }

  unlock(token: string): void {
    this.#token = token.trim();
    sessionStorage.setItem(TOKEN, this.#token);
  }

  forget(): void {
    this.#token = '';
    sessionStorage.removeItem(TOKEN);
  }

  /** A route of a node's admin plane. A node serves its own page; the tool passes on to each of a cluster. */
  async node(nodeId: number, path: string, ask: Ask = {}): Promise<PageAnswer> {
    return await this.own(this.#kind === 'node' ? path : `/nodes/${nodeId}${path}`, ask);
  }

  async own(path: string, ask: Ask = {}): Promise<PageAnswer> {
    const { method = 'GET', headers = {}, body, timeoutMs = TIMEOUT_MS, bytesMax = BYTES_MAX, signal } = ask;
    const late = AbortSignal.timeout(timeoutMs);
    const token = this.#token;
    try {
      const answer = await fetch(path, {
        method,
        headers: token === '' ? headers : { ...headers, authorization: `Bearer ${token}` },
        cache: 'no-store',
        credentials: 'omit',
        redirect: 'manual',
        signal: signal === undefined ? late : AbortSignal.any([late, signal]),
        ...(body === undefined ? {} : { body }),
      });
      if (answer.status === 401) throw this.#refused(token);
      return { status: answer.status, headers: answer.headers, ...(await bounded(answer, bytesMax)) };
    } catch (error) {
      if (error instanceof NoAnswer) throw error;
      if (signal?.aborted === true) throw new NoAnswer('given up');
      if (late.aborted) throw new NoAnswer(`no answer within ${timeoutMs / 1000} s`);
      throw new NoAnswer(this.#kind === 'node' ? 'the node does not answer' : 'millracectl console does not answer');
    }
  }

  /** A token that opens nothing is not kept, unless another one was given meanwhile. */
  #refused(token: string): NoAnswer {
    if (token === this.#token) this.forget();
    if (this.#kind === 'cluster')
      return new NoAnswer('open the address that millracectl console printed, or give the key in it', 'locked');
    const reason = token === '' ? 'the node asks for an admin token' : 'the node does not take this admin token';
    return new NoAnswer(reason, 'locked');
  }
}

/** `#key=...` of the address that the tool printed. It leaves the address at once, so that it is in no bookmark. */
function tokenOfAddress(): string | undefined {
  const key = /^#key=([\w-]+)$/.exec(location.hash)?.[1];
  if (key !== undefined) history.replaceState(null, '', location.pathname);
  return key;
}

async function bounded(answer: Response, bytesMax: number): Promise<Pick<PageAnswer, 'bytes' | 'isCut'>> {
  const reader = answer.body?.getReader();
  const pieces: Uint8Array[] = [];
  let size = 0;
  let isCut = false;
  while (reader !== undefined && !isCut) {
    const { done, value } = await reader.read();
    if (done) break;
    isCut = size + value.length > bytesMax;
    pieces.push(isCut ? value.subarray(0, bytesMax - size) : value);
    size += pieces.at(-1)?.length ?? 0;
  }
  if (isCut) await reader?.cancel();
  return { bytes: joinBytes(pieces), isCut };
}

export function joinBytes(pieces: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(pieces.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const piece of pieces) {
    bytes.set(piece, at);
    at += piece.length;
  }
  return bytes;
}

export function textOf({ bytes }: PageAnswer): string {
  return new TextDecoder().decode(bytes);
}

/** Undefined: it is no JSON. */
export function jsonOf(answer: PageAnswer): unknown {
  try {
    return JSON.parse(textOf(answer)) as unknown;
  } catch {
    return undefined;
  }
}

/** Checks a value that was read from an answer. It is undefined in answers that no node of ours would have written. */
export function sound<T>(value: T | undefined): T {
  if (value === undefined)
    throw new NoAnswer('what answers there is not a node of this service, or its answer was cut');
  return value;
}

const SENTENCE_CHARS_MAX = 400;

/** The sentence of a refusal, or the reason in its JSON. */
export function sentenceOf(answer: PageAnswer): string {
  const json = jsonOf(answer);
  const text =
    typeof json === 'object' && json !== null && 'reason' in json ? String(json.reason) : textOf(answer).trim();
  const code = answer.headers.get('millrace-error');
  const sentence = (text.split('\n')[0] ?? '').slice(0, SENTENCE_CHARS_MAX);
  return `${answer.status}${code === null ? '' : ` ${code}`}${sentence === '' ? '' : `: ${sentence}`}`;
}
