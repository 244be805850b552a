// One real server for all tests of a file, and a short way to ask it. The log is printed when a test failed.
import { after, before, describe, it } from 'node:test';
import assert from 'node:assert/strict';
import { assertDocumented, sentOf } from './documented.ts';
import { TestServer, type ServerOptions } from './server.ts';

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

export interface Ask {
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array<ArrayBuffer>;
  /** Another plane than the client's. */
  readonly base?: string;
}

export interface Suite {
  readonly server: TestServer;
  test(name: string, body: () => Promise<void>): void;
  /** `target` is `METHOD /path`. */
  ask(target: string, ask?: Ask): Promise<Answer>;
  /** Asks and asserts the status; the body is in the message when it differs. */
  expect(status: number, target: string, ask?: Ask): Promise<Answer>;
  /** A bucket name that is unique to the test. */
  freshBucket(): string;
}

/** Header block too large, version not supported. */
const LIBRARY_STATUSES: readonly number[] = [431, 505];

export function serverSuite(name: string, options: ServerOptions, define: (suite: Suite) => void): void {
  describe(name, () => {
    const server = new TestServer(options);
    let hasFailed = false;
    let buckets = 0;
    before(async () => {
      await server.start();
    });
    after(async () => {
      if (hasFailed)
        process.stderr.write(`--- log of the server (end) ---\n${server.log().slice(-8000)}\n--- end of log ---\n`);
      await server.dispose();
    });
    const ask = async (target: string, { headers, body, base }: Ask = {}): Promise<Answer> => {
      const space = target.indexOf(' ');
      const response = await fetch(`${base ?? server.url}${target.slice(space + 1)}`, {
        method: target.slice(0, space),
        ...(headers === undefined ? {} : { headers }),
        // As bytes, so that fetch adds no Content-Type.
        ...(body === undefined ? {} : { body: typeof body === 'string' ? new TextEncoder().encode(body) : body }),
        redirect: 'manual',
      });
      const text = await response.text();
      assertDocumented(target.slice(0, space), response.url, response, text, sentOf(headers, body));
      const { status, headers: answered } = response;
      // The library's own answers, before any of our code runs, cannot carry it.
      if (status >= 400 && !LIBRARY_STATUSES.includes(status)) {
        assert.match(answered.get('millrace-error') ?? '', /^[A-Z_]+$/, `${target}: ${status} needs a code`);
        assert.match(answered.get('x-request-id') ?? '', /^[\w.:/+=@-]{1,128}$/, `${target}: ${status} needs an id`);
      }
      return { status, headers: answered, text };
    };
    const expect = async (status: number, target: string, what: Ask = {}): Promise<Answer> => {
      const answer = await ask(target, what);
      const sent = JSON.stringify({ ...what, body: what.body?.slice(0, 200) });
      assert.equal(answer.status, status, `${target} ${sent}: ${answer.status} ${answer.text.slice(0, 300)}`);
      if (status >= 400 && !target.startsWith('HEAD '))
        assert.match(answer.text, /\w+ \w+/, `${target}: ${status} needs a sentence`);
      return answer;
    };
    define({
      server,
      test: (title, body) => {
        it(title, async () => {
          try {
            await body();
          } catch (error) {
            hasFailed = true;
            throw error;
          }
        });
      },
      ask,
      expect,
      freshBucket: () => `bucket-${++buckets}`,
    });
  });
}

/** Stream-Next-Offset of an answer: always 20 digits. */
export function offsetOf(answer: Answer): number {
  const value = answer.headers.get('stream-next-offset') ?? '';
  assert.match(value, /^\d{20}$/, 'Stream-Next-Offset');
  return Number(value);
}

export function assertHeaders(answer: Answer, expected: Readonly<Record<string, string | null>>): void {
  for (const [name, value] of Object.entries(expected)) assert.equal(answer.headers.get(name), value, `header ${name}`);
}

export const TEXT = { 'Content-Type': 'text/plain' } as const;
export const JSON_TYPE = { 'Content-Type': 'application/json' } as const;

export function producer(id: string, epoch: number | string, seq: number | string): Record<string, string> {
  return { 'Producer-Id': id, 'Producer-Epoch': String(epoch), 'Producer-Seq': String(seq) };
}
