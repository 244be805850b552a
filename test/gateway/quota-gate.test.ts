// Queries of the quota gate, the writes that wait for them, and its behaviour while a group has no leader.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ErrorCode, errorCode, errorNumber } from '../../src/base/errors.ts';
import type { ReplyHandler, ShardGateway } from '../../src/ports.ts';
import { QuotaGate } from '../../src/gateway/quota-gate.ts';
import { encodeQuota } from '../../src/protocol/bucket-command.ts';
import { Reply } from '../../src/protocol/reply.ts';
import { QUOTA_OVER, QUOTA_UNKNOWN, QUOTA_UNMARKED, type Request, newRequest } from '../../src/protocol/request.ts';
import { queryOf } from '../support/asked-query.ts';
import { COMMANDS, QUERIES } from '../../src/protocol/operations.ts';

/** Two shards. The leader of all writes is there; the groups of the second shard may have none. */
class Shards implements ShardGateway {
  readonly groupCount = 2;
  readonly shardCount = 2;
  /** -1: no quota. */
  streamsMax = -1;
  streams = 0;
  isDark = false;
  /** The node itself has nothing of the groups of the second shard either; it is taking in a snapshot, say. */
  isBlank = false;
  /** The writes that a leader would have got: the mark, and the text of the body. */
  readonly writes: [mark: number, body: string][] = [];
  /** Queries without an answer yet. */
  readonly held: (() => void)[] = [];

  groupOf(): number {
    return 0;
  }

  send(request: Request, handler: ReplyHandler, shard?: number): boolean {
    const isBucket = request.op === QUERIES.bucket.number;
    if (isBucket) this.#tell(shard ?? 0, QUERIES.bucket.request.read(queryOf(request)).isSoon === true, handler);
    else if (request.op === COMMANDS.quota.number) answer(handler, 'OK');
    else this.#write(request, handler);
    return true;
  }

  openTopic(): number {
    return 0;
  }

  closeTopic(): void {}

  #write({ quotaMark, command }: Request, handler: ReplyHandler): void {
    this.writes.push([quotaMark, Buffer.from(command.payload ?? []).toString()]);
    if (quotaMark === QUOTA_UNKNOWN && this.streamsMax >= 0) return answer(handler, 'QUOTA_UNKNOWN');
    if (quotaMark === QUOTA_OVER) return answer(handler, 'QUOTA_EXCEEDED');
    this.streams++;
    return answer(handler, 'OK');
  }

  #tell(shard: number, isSoon: boolean, handler: ReplyHandler): void {
    const tell = (): void =>
      answer(handler, this.isDark && shard === 1 && (!isSoon || this.isBlank) ? 'UNCONFIRMED' : 'OK', (reply) => {
        const streams = shard === 0 ? this.streams : 0;
        const { streamsMax } = this;
        const none = { exists: true, retainedBytes: 0, retainedBytesMax: -1 };
        QUERIES.bucket.result.write(reply, { ...none, streams, streamsMax });
      });
    if (this.isDark && !isSoon) this.held.push(tell);
    else tell();
  }
}

function answer(handler: ReplyHandler, code: ErrorCode, fill: (reply: Reply) => void = () => undefined): void {
  queueMicrotask(() => {
    const reply = new Reply();
    reply.code = errorNumber(code);
    fill(reply);
    handler.onReply(reply);
  });
}

class Rig {
  readonly shards = new Shards();
  clockMs = 0;
  readonly gate: QuotaGate;
  readonly codes: string[] = [];
  #timers: (() => void)[] = [];

  constructor() {
    this.gate = new QuotaGate(
      this.shards,
      () => this.clockMs,
      (_, run) => void this.#timers.push(run),
    );
  }

  /** The codes that came, until nothing moves. */
  async send(bucket: string, op: number = COMMANDS.create.number, body = ''): Promise<string[]> {
    const request = newRequest();
    request.op = op;
    const payload = new Uint8Array(Buffer.from(body));
    Object.assign(request.command, { kind: op, bucket, stream: 's' });
    if (op === COMMANDS.quota.number)
      request.command.payload = encodeQuota({ streamsMax: this.shards.streamsMax, retainedBytesMax: -1 });
    else if (body !== '') request.command.payload = payload;
    const taken = this.gate.send(request, { onReply: ({ code }) => this.codes.push(errorCode(code)) });
    assert(taken);
    // The caller's memory is its own again.
    payload.fill(0x2e);
    return this.settle();
  }

  async settle(): Promise<string[]> {
    for (let i = 0; i < 100; i++) await Promise.resolve();
    return this.codes.splice(0);
  }

  async pass(ms: number): Promise<string[]> {
    this.clockMs += ms;
    for (const run of this.#timers.splice(0)) run();
    return this.settle();
  }

  /** The questions that wait fail, as they do in the end. */
  async fail(): Promise<string[]> {
    for (const tell of this.shards.held.splice(0)) tell();
    return this.settle();
  }
}

test('buckets without a quota ask nothing and wait for nothing, also while a group has no leader', async () => {
  const rig = new Rig();
  rig.shards.isDark = true;
  for (let i = 0; i < 100; i++) assert.deepEqual(await rig.send(`b${i}`), ['OK']);
  for (let i = 0; i < 5; i++) {
    assert.deepEqual(await rig.send('b0', COMMANDS.append.number, 'x'), ['OK']);
    await rig.pass(700);
  }
  assert.equal(rig.gate.counters.asked, 0);
  assert.equal(rig.shards.held.length, 0);
  assert(rig.shards.writes.every(([mark]) => mark === QUOTA_UNKNOWN));
});

test('a quota that another node was told is learnt from the leader, and the write goes again with its bytes', async () => {
  const rig = new Rig();
  rig.shards.streamsMax = 2;
  assert.deepEqual(await rig.send('b', COMMANDS.create.number, 'one'), ['OK']);
  assert.deepEqual(rig.shards.writes, [
    [QUOTA_UNKNOWN, 'one'],
    [QUOTA_UNMARKED, 'one'],
  ]);
  assert.deepEqual([await rig.send('b'), await rig.send('b'), await rig.send('b')].flat(), [
    'OK',
    'QUOTA_EXCEEDED',
    'QUOTA_EXCEEDED',
  ]);
  assert.equal(rig.shards.streams, 2);
  // Lifted through another node: asked, and then no more.
  rig.shards.streamsMax = -1;
  assert.deepEqual(await rig.send('b'), ['OK']);
  const { asked } = rig.gate.counters;
  assert.deepEqual(await rig.send('b'), ['OK']);
  assert.equal(rig.gate.counters.asked, asked);
});

test('under a load of a bucket that gets a quota elsewhere one answer is 503, nothing is written for it, and the next is exact', async () => {
  const rig = new Rig();
  for (let i = 0; i < 3; i++) assert.deepEqual(await rig.send('b', COMMANDS.append.number, 'x'), ['OK']);
  rig.shards.streamsMax = 3;
  assert.deepEqual(await rig.send('b', COMMANDS.append.number, 'x'), ['QUOTA_UNKNOWN']);
  assert.equal(rig.shards.streams, 3);
  assert.deepEqual(await rig.send('b'), ['QUOTA_EXCEEDED']);
  // One that comes now and then has its copy.
  const other = new Rig();
  assert.deepEqual(await other.send('b', COMMANDS.appendBatch.number, '\0\0\0\u0001x'), ['OK']);
  await other.pass(1000);
  other.shards.streamsMax = 3;
  assert.deepEqual(await other.send('b', COMMANDS.appendBatch.number, '\0\0\0\u0001x'), ['OK']);
});

test('a close goes straight on where no write waits, and never before one that does', async () => {
  const rig = new Rig();
  rig.shards.streamsMax = 9;
  assert.deepEqual(await rig.send('b'), ['OK']);
  await rig.pass(1000);
  const { asked } = rig.gate.counters;
  assert.deepEqual(await rig.send('b', COMMANDS.append.number), ['OK']);
  assert.equal(rig.gate.counters.asked, asked, 'a close asks nothing');
  rig.shards.writes.length = 0;
  const both = [rig.send('b', COMMANDS.append.number, 'last'), rig.send('b', COMMANDS.append.number)];
  assert.deepEqual((await Promise.all(both)).flat(), ['OK', 'OK']);
  assert.deepEqual(rig.shards.writes, [
    [QUOTA_UNMARKED, 'last'],
    [QUOTA_UNMARKED, ''],
  ]);
});

test('the node that sets a quota knows it immediately', async () => {
  const rig = new Rig();
  for (let i = 0; i < 2; i++) await rig.send('b', COMMANDS.append.number, 'x');
  rig.shards.streamsMax = 2;
  assert.deepEqual(await rig.send('b', COMMANDS.quota.number), ['OK']);
  rig.shards.writes.length = 0;
  assert.deepEqual(await rig.send('b'), ['QUOTA_EXCEEDED']);
  assert.deepEqual(rig.shards.writes, [[QUOTA_OVER, '']]);
});

test('while a group has no leader, a known quota uses the last figures plus what this node admits', async () => {
  const rig = new Rig();
  rig.shards.streamsMax = 4;
  assert.deepEqual(await rig.send('b'), ['OK']);
  rig.shards.isDark = true;
  assert.deepEqual(await rig.send('b'), [], 'it waits for the groups, but not as long as they do');
  assert.deepEqual(await rig.pass(1000), []);
  assert.deepEqual(await rig.pass(1000), ['OK']);
  assert.equal(rig.shards.held.length, 2, 'the question is still out');
  assert.deepEqual(await rig.send('b'), ['OK'], 'no write waits from now on');
  assert.deepEqual(await rig.fail(), []);
  assert.deepEqual(await rig.send('b'), ['OK']);
  assert.deepEqual(await rig.send('b'), ['QUOTA_EXCEEDED']);
  assert.equal(rig.shards.streams, 4);
  // The leader is back, and a stream is gone meanwhile.
  rig.shards.isDark = false;
  rig.shards.streams = 3;
  assert.equal(rig.shards.held.length, 2, 'they are asked again beside the writes');
  await rig.fail();
  assert.deepEqual([await rig.send('b'), await rig.send('b')].flat(), ['OK', 'QUOTA_EXCEEDED']);
});

test('a default is the quota of each bucket without one, from its first write on, until there is none', async () => {
  const rig = new Rig();
  assert.deepEqual(await rig.send('b'), ['OK'], 'before it is set');
  rig.gate.defaultQuota = { streamsMax: 2, bytesMax: -1 };
  assert.deepEqual([await rig.send('b'), await rig.send('b')].flat(), ['OK', 'QUOTA_EXCEEDED']);
  assert.deepEqual(await rig.send('other'), ['QUOTA_EXCEEDED'], 'the shards have two streams of any bucket');
  assert.deepEqual(rig.shards.writes.at(-1), [QUOTA_OVER, '']);
  rig.shards.streamsMax = 3;
  await rig.pass(1000);
  assert.deepEqual([await rig.send('b'), await rig.send('b')].flat(), ['OK', 'QUOTA_EXCEEDED'], 'its own goes first');
  rig.shards.streamsMax = -1;
  await rig.pass(1000);
  rig.gate.defaultQuota = { streamsMax: 9, bytesMax: -1 };
  assert.deepEqual(await rig.send('b'), ['OK'], 'a larger one');
  rig.gate.defaultQuota = { streamsMax: -1, bytesMax: -1 };
  assert.deepEqual(await rig.send('b'), ['OK']);
  const { asked } = rig.gate.counters;
  for (let i = 0; i < 20; i++) assert.deepEqual(await rig.send('b'), ['OK']);
  assert.equal(rig.gate.counters.asked, asked);
});

test('a question that fails denies only what nothing was ever known of', async () => {
  const rig = new Rig();
  rig.shards.streamsMax = 4;
  rig.shards.isDark = true;
  rig.shards.isBlank = true;
  assert.deepEqual(await rig.send('b'), []);
  assert.deepEqual(await rig.fail(), ['UNCONFIRMED']);
  rig.shards.isDark = false;
  assert.deepEqual(await rig.send('b'), ['OK']);
  rig.shards.isDark = true;
  assert.deepEqual(await rig.send('b'), []);
  assert.deepEqual(await rig.fail(), ['OK']);
  assert.deepEqual(await rig.send('b'), ['OK']);
});

test('where nothing was said before, what this node has itself has to do, until the leaders are back', async () => {
  const rig = new Rig();
  rig.shards.streamsMax = 2;
  rig.shards.streams = 1;
  rig.shards.isDark = true;
  assert.deepEqual(await rig.send('b'), []);
  assert.deepEqual(await rig.fail(), ['OK']);
  assert.deepEqual(await rig.send('b'), ['QUOTA_EXCEEDED'], 'no write waits from now on');
  rig.clockMs += 1000;
  rig.shards.isDark = false;
  rig.shards.streams = 1;
  assert.deepEqual(await rig.send('b'), ['QUOTA_EXCEEDED']);
  assert.deepEqual(await rig.send('b'), ['OK']);
});
