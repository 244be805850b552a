// Requests that are repeated as clients repeat them. While leaders change, any node may answer 503 with Retry-After at
// any moment, and a busy machine changes leaders by itself: a test whose subject is something else asks through these.
import assert from 'node:assert/strict';
import { ConnectionLost, RawClient, type HeaderList, type RawResponse } from './raw-client.ts';
import { until } from './until.ts';

/** The common part of answers of all clients of the tests. */
interface Answered {
  readonly status: number;
  readonly headers: { get(name: string): string | null | undefined };
}

export interface Settled<A> {
  readonly answer: A;
  /** An earlier attempt may have taken effect: its answer was lost, or left the outcome unknown. */
  readonly mayHaveActed: boolean;
  readonly attempts: number;
}

/** The fate of a write is not known, so whatever a test said next would be a guess. */
class Undecided extends Error {}

/** So often a machine may change leaders under one write of a test. */
const ATTEMPTS = 5;

/** Runs `body` again, which takes other names then, when what became of one of its writes is not known. */
export async function untilDecided(body: (attempt: number) => Promise<void>): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await body(attempt);
    } catch (error) {
      if (!(error instanceof Undecided) || attempt === ATTEMPTS) throw error;
    }
  }
}

/** Sent with these, a 503 says that nothing was done; any other one leaves it open. */
const NOTHING_DONE = new Set([
  'NO_LEADER',
  'LEADER_BUSY',
  'SHARD_BUSY',
  'INFLIGHT_FULL',
  'UNCOMMITTED_FULL',
  'BACKPRESSURE',
  'QUOTA_UNKNOWN',
  'UNCONFIRMED',
  'NOT_APPLIED',
  'UPGRADE_UNFINISHED',
  'DISK_FULL',
]);

/** The refusal promises that the write was not done, and will not be. */
export function didNothing({ headers }: Answered): boolean {
  return NOTHING_DONE.has(headers.get('millrace-error') ?? '');
}

/** Codes of fetch, when a connection that it kept ends before the answer. */
const LOST_CODES = new Set(['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET']);

/** Asks until the answer is another one than "not now". A refused connection is a dead node: no patience helps. */
export async function patiently<A extends Answered>(what: string, ask: () => Promise<A>): Promise<Settled<A>> {
  let answer: A | undefined;
  let mayHaveActed = false;
  let attempts = 0;
  let last = '';
  await until(
    () => `${what}: another answer than ${last}`,
    async () => {
      answer = undefined;
      attempts++;
      try {
        answer = await ask();
      } catch (error) {
        if (!isLost(error)) throw error;
        mayHaveActed = true;
        last = String(error);
        return false;
      }
      // Without that header no repeat is asked for, and the caller judges it.
      if (answer.status !== 503 || (answer.headers.get('retry-after') ?? '') === '') return true;
      last = answer.headers.get('millrace-error') ?? '503 without a code';
      mayHaveActed ||= !NOTHING_DONE.has(last);
      return false;
    },
  );
  assert(answer !== undefined);
  return { answer, mayHaveActed, attempts };
}

/** Asks again only when the answer is lost: for what has no other effect than its answer, where a 503 is one too. */
export async function answered<A>(ask: () => Promise<A>): Promise<A> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await ask();
    } catch (error) {
      if (!isLost(error) || attempt === ATTEMPTS) throw error;
    }
  }
}

function isLost(error: unknown): boolean {
  if (error instanceof ConnectionLost) return true;
  const cause = error instanceof Error ? error.cause : undefined;
  return cause instanceof Error && 'code' in cause && LOST_CODES.has(String(cause.code));
}

/** A client of one node, for what needs no order of connections: requests that overlap have different ones. */
export class PatientClient {
  readonly #port: () => number;
  readonly #idle: RawClient[] = [];

  constructor(port: () => number) {
    this.#port = port;
  }

  /** Reads, and what may be done twice with the same answer. */
  async request(
    method: string,
    path: string,
    headers: HeaderList = {},
    body: string | Buffer = '',
  ): Promise<RawResponse> {
    return (await this.#settled(method, path, headers, body)).answer;
  }

  async expect(
    status: number,
    method: string,
    path: string,
    headers: HeaderList = {},
    body: string | Buffer = '',
  ): Promise<RawResponse> {
    const answer = await this.request(method, path, headers, body);
    assert.equal(answer.status, status, said(method, path, answer));
    return answer;
  }

  /** For `untilDecided`: a write that takes effect once. */
  async decided(
    method: string,
    path: string,
    headers: HeaderList = {},
    body: string | Buffer = '',
  ): Promise<RawResponse> {
    const { answer, mayHaveActed } = await this.#settled(method, path, headers, body);
    if (mayHaveActed && method !== 'GET' && method !== 'HEAD') throw new Undecided(said(method, path, answer));
    return answer;
  }

  /** A stream that was not there. */
  async create(path: string, headers: HeaderList, body: string | Buffer = ''): Promise<RawResponse> {
    const { answer, mayHaveActed } = await this.#settled('PUT', path, headers, body);
    const isNew = answer.status === 201 || (answer.status === 200 && mayHaveActed);
    assert(isNew, said('PUT', path, answer));
    return answer;
  }

  /** Exactly once, as a unique producer. The answer has the offset that the first one had, or would have had. */
  async append(path: string, headers: HeaderList, body: string | Buffer): Promise<RawResponse> {
    const producer = { 'Producer-Id': `once-${++producers}`, 'Producer-Epoch': 0, 'Producer-Seq': 0 };
    const { answer, mayHaveActed } = await this.#settled('POST', path, { ...headers, ...producer }, body);
    const isTaken = answer.status === 200 || (answer.status === 204 && mayHaveActed);
    assert(isTaken, said('POST', path, answer));
    return answer;
  }

  /** A stream that was there. */
  async delete(path: string, headers: HeaderList = {}): Promise<void> {
    const { answer, mayHaveActed } = await this.#settled('DELETE', path, headers, '');
    const isGone = answer.status === 204 || ([404, 410].includes(answer.status) && mayHaveActed);
    assert(isGone, said('DELETE', path, answer));
  }

  destroy(): void {
    for (const client of this.#idle.splice(0)) client.destroy();
  }

  async #settled(
    method: string,
    path: string,
    headers: HeaderList,
    body: string | Buffer,
  ): Promise<Settled<RawResponse>> {
    return await patiently(`${method} ${path}`, async () => {
      const client = await this.#connection();
      try {
        const answer = await client.request(method, path, headers, body);
        this.#idle.push(client);
        return answer;
      } catch (error) {
        client.destroy();
        throw error;
      }
    });
  }

  async #connection(): Promise<RawClient> {
    for (;;) {
      const client = this.#idle.pop();
      if (client === undefined) return await RawClient.connect(this.#port());
      if (client.isOpen) return client;
    }
  }
}

let producers = 0;

function said(method: string, path: string, { status, body }: RawResponse): string {
  return `${method} ${path}: ${status} ${body.toString('utf8', 0, 300)}`;
}
