// A node's live readers over the fake gateway and responses without sockets, step by step.
import assert from 'node:assert/strict';
import type { ReadParams } from '../../../src/http/context.ts';
import { startLongPoll } from '../../../src/http/live/long-poll.ts';
import { startSse } from '../../../src/http/live/sse.ts';
import { HttpNode } from '../../../src/http/server-context.ts';
import type { RequestPool } from '../../../src/http/server.ts';
import { READ_NOW, READ_OFFSET } from '../../../src/protocol/read-fields.ts';
import { MemoryGateway } from '../../support/memory-gateway.ts';
import { FakeResponse } from './fake-response.ts';
import { testContext } from '../test-context.ts';
import { beginCall, newCalls } from './harness.ts';

export class World {
  readonly gateway = new MemoryGateway();
  readonly node: HttpNode;
  readonly #calls: RequestPool;
  clockMs = 0;

  constructor() {
    this.gateway.manual = true;
    const settings = { sseLifetimeMs: 1_000_000 };
    this.node = new HttpNode(testContext(this.gateway, { monotonicMs: () => this.clockMs, settings }));
    this.#calls = newCalls(this.node);
  }

  open(live: 'sse' | 'long-poll', offset: number | 'now', maxBytes = 0): FakeResponse {
    const response = new FakeResponse();
    const params: ReadParams = {
      mode: offset === 'now' ? READ_NOW : READ_OFFSET,
      value: offset === 'now' ? 0 : offset,
      maxBytes,
      maxRecords: 0,
      readFlags: 0,
      live,
      timeoutMs: 30_000,
      cursor: undefined,
      ifNoneMatch: '',
    };
    const call = beginCall(this.#calls, { res: response.res, stream: 's' });
    if (live === 'sse') startSse(call, params);
    else startLongPoll(call, params);
    call.returned();
    return response;
  }

  advance(ms: number): void {
    this.clockMs += ms;
    this.node.live.clock.advance();
  }

  /** Everything that is under way arrives. */
  async settle(): Promise<void> {
    for (let i = 0; i < 8; i++) {
      this.gateway.pump();
      while (this.gateway.held.length > 0) {
        this.gateway.release();
        this.gateway.pump();
      }
      await Promise.resolve();
      this.advance(60);
    }
  }
}

export interface Received {
  readonly bytes: Buffer;
  /** Offset of the last control event; undefined before the first. */
  readonly next: number | undefined;
  readonly closed: boolean;
  readonly error: boolean;
}

/**
 * Takes an event stream apart and checks its grammar: data is followed by control, and control tells how far it went.
 */
export function received(response: FakeResponse, start: number): Received {
  const base64 = response.headers.get('stream-sse-data-encoding') === 'base64';
  const parts: Buffer[] = [];
  let expected: number | undefined = start < 0 ? undefined : start;
  let next: number | undefined;
  let sinceControl = 0;
  let closed = false;
  let error = false;
  let dataId: string | undefined;
  for (const block of Buffer.concat(response.sent).toString('latin1').split('\n\n')) {
    if (block === '' || block === ':') continue;
    assert.ok(!closed && !error, 'nothing follows the end');
    const lines = block.split('\n');
    const data = lines
      .filter((line) => line.startsWith('data:'))
      .map((line) => line.slice('data:'.length).replace(/^ /, ''))
      .join('\n');
    if (lines[0] === 'event: error') {
      error = true;
    } else if (lines[0] === 'event: data') {
      assert.equal(sinceControl, 0, 'each data event is followed by a control event');
      const bytes = Buffer.from(data, base64 ? 'base64' : 'latin1');
      parts.push(bytes);
      dataId = lines.at(-1);
      sinceControl = bytes.length;
    } else {
      assert.equal(lines[0], 'event: control');
      const control = JSON.parse(data) as { streamNextOffset: string; streamClosed?: boolean };
      next = Number(control.streamNextOffset);
      const ids = [lines.at(-1), dataId].filter((line) => line !== undefined);
      const expectedId = `id: ${control.streamNextOffset}`;
      for (const id of ids) if (id !== expectedId) assert.equal(id, `${expectedId};closed`);
      assert.equal(lines.at(-1)?.endsWith(';closed'), control.streamClosed === true);
      dataId = undefined;
      if (expected !== undefined) assert.equal(next, expected + sinceControl, 'the control event covers what was sent');
      expected = next;
      sinceControl = 0;
      closed = control.streamClosed === true;
    }
  }
  return { bytes: Buffer.concat(parts), next, closed, error };
}
