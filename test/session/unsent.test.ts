// Clients that take nothing, or take back what they asked for: what they hold is bounded, and a session that ends has
// delivered its answers.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { RequestMeters } from '../../src/access/request-meters.ts';
import { READER_STALL_MS_MAX, SESSION_FOLLOW_BYTES_MAX } from '../../src/base/limits.ts';
import { serveSockets } from '../../src/http/guard.ts';
import { HttpServerContext } from '../../src/http/server-context.ts';
import type { UwsApp } from '../../src/http/uws.ts';
import { COMMANDS, QUERIES } from '../../src/protocol/operations.ts';
import { REPLY_UP_TO_DATE, Reply } from '../../src/protocol/reply.ts';
import { Frame } from '../../src/session/frame.ts';
import { MessageReader } from '../../src/session/messagepack.ts';
import { ReadTurns, SessionOutbox, TailEvent } from '../../src/session/outbox.ts';
import { Sessions } from '../../src/session/sessions.ts';
import { FollowedStream } from '../../src/session/subscription.ts';
import { startLive } from '../http/live/harness.ts';
import { type Rig, startPlanes } from '../http/planes.ts';
import { until } from '../support/until.ts';
import {
  APPEND,
  DONE,
  GO_AWAY,
  HEAD,
  READ,
  REFUSED,
  SUBSCRIBE,
  SessionClient,
  TEXT,
  UNSUBSCRIBE,
  frameOf,
  pack,
} from './client.ts';

const MUCH = 1_000_000;
const MIB = 1024 * 1024;
const OP_PING = 9;

/** A READ whose map of options may name one more than once. */
function readWith(id: number, stream: string, options: readonly Buffer[]): Buffer {
  const map = Buffer.from([0x80 | options.length]);
  return Buffer.concat([Buffer.from([0x95]), pack(READ, id, 'b', stream), map, ...options]);
}

async function start(t: TestContext, settings: Parameters<typeof startPlanes>[1] = {}): Promise<[Rig, SessionClient]> {
  const rig = await startPlanes(t, settings);
  const client = await SessionClient.connect(rig.port);
  t.after(() => client.destroy());
  return [rig, client];
}

/** The answer to a read. */
function bring(reply: Reply, body: Uint8Array): void {
  Object.assign(reply, { flags: REPLY_UP_TO_DATE, contentType: 'text/plain', nextOffset: body.length, body });
}

async function unsentBytes({ admin }: Rig): Promise<number> {
  const response = await fetch(`${admin}/__svc/metrics`);
  return ((await response.json()) as Record<string, number>)['http_unsent_answer_bytes'] ?? 0;
}

test('subscriptions that are taken back at once start no more reads than their session may have', async (t) => {
  const [rig, client] = await start(t);
  rig.gateway.script = () => false;
  const reads = (): number => rig.gateway.asked.filter(({ op }) => op === QUERIES.read.number).length;
  const pairs = Array.from({ length: 100 }, (_, id) => [
    [SUBSCRIBE, id, 'b', `s${id}`, MUCH, { offset: 0 }],
    [UNSUBSCRIBE, id],
  ]);
  client.send(...pairs.flat());
  for (let id = 0; id < 100; id++) assert.equal((await client.about(id)).kind, DONE);
  const atOnce = reads();
  assert(atOnce > 0 && atOnce <= 10, `${atOnce} reads at once`);
  client.send([SUBSCRIBE, 1, 'b', 's', MUCH, { offset: 0 }], [HEAD, 2, 'b', 't']);
  await until('the node has both', () => rig.gateway.asked.length === atOnce + 1);
  assert.equal(reads(), atOnce, 'it waits for its turn');
  rig.gateway.release();
  await until('its turn has come', () => reads() === atOnce + 1);
});

test('a subscription that has left does not wait for a turn to read', async (t) => {
  const { node } = await startLive(t);
  const server = new HttpServerContext(node);
  const outbox = new SessionOutbox(server, '', () => undefined);
  outbox.open({ send: () => 1, end: () => undefined, close: () => undefined, getBufferedAmount: () => 0 });
  const turns = new ReadTurns(outbox);
  const none = (): void => undefined;
  assert(turns.take({ resume: none }, SESSION_FOLLOW_BYTES_MAX));
  const frame = new Frame();
  frame.read(new MessageReader(pack([SUBSCRIBE, 1, 'b', 's', MUCH, { offset: 0 }])));
  const rights = { metersOf: (): RequestMeters => new RequestMeters(server.limits) };
  const owner = { server, requestId: '', outbox, turns, tailEvent: new TailEvent(), refuse: none, wrote: none, rights };
  const [leaves, stays] = [new FollowedStream(owner, frame), new FollowedStream(owner, frame)];
  const resumed: FollowedStream[] = [];
  for (const subscription of [leaves, stays]) {
    assert.equal(subscription.start(frame), undefined);
    t.mock.method(subscription, 'resume', () => resumed.push(subscription));
  }
  leaves.leave();
  turns.give(SESSION_FOLLOW_BYTES_MAX);
  assert.deepEqual(resumed, [stays]);
  stays.leave();
});

test('a session whose last answer is large ends when the node stops', async (t) => {
  const [rig, client] = await start(t);
  rig.gateway.script = () => false;
  client.send([READ, 1, 'b', 's', {}]);
  await until('it is asked', () => rig.gateway.heldCount === 1);
  const closed = rig.planes.close(20_000);
  await client.take(({ kind }) => kind === GO_AWAY);
  rig.gateway.release((_, reply) => bring(reply, Buffer.alloc(MUCH, 'x')));
  assert.equal((await client.about(1)).body.length, MUCH);
  assert.equal(await client.ended(), 1001);
  await closed;
});

test('a node that stops ends a session when its client has taken the answers', async (t) => {
  const [rig, client] = await start(t);
  rig.gateway.script = ({ op }, reply) => {
    if (op === QUERIES.read.number) bring(reply, Buffer.alloc(MUCH, 'x'));
  };
  client.socket.pause();
  const ids = Array.from({ length: 8 }, (_, id) => id);
  client.send(...ids.map((id) => [READ, id, 'b', `s${id}`, {}]));
  await until('its socket is full', async () => (await unsentBytes(rig)) > MUCH);
  const closed = rig.planes.close(20_000);
  // Everything that the node does at once is done.
  await new Promise((resolve) => void setImmediate(resolve));
  client.socket.resume();
  for (const id of ids) assert.equal((await client.about(id)).body.length, MUCH);
  await client.take(({ kind }) => kind === GO_AWAY);
  assert.equal(await client.ended(), 1001);
  await closed;
});

test('a changed token ends the subscriptions of a session whose client takes nothing', async (t) => {
  const headers = ['Authorization: Bearer one'];
  const rig = await startPlanes(t, { clientToken: 'one' });
  const client = await SessionClient.connect(rig.port, { headers });
  t.after(() => client.destroy());
  rig.gateway.script = ({ op }) => op !== QUERIES.read.number;
  client.send([READ, 1, 'b', 's', {}], [SUBSCRIBE, 2, 'b', 't', MUCH, { offset: 0 }], [HEAD, 3, 'b', 'u']);
  await client.about(3);
  rig.planes.changeTokens({ client: 'two', admin: '' });
  const ended = await client.about(2);
  assert.deepEqual([ended.kind, ended.code], [REFUSED, 'STOPPING']);
  assert.equal(rig.counters.live.subscriptions, 0);
  rig.gateway.release((_, reply) => bring(reply, Buffer.alloc(MUCH, 'x')));
  assert.equal((await client.about(1)).body.length, MUCH);
  assert.equal(await client.ended(), 1001);
});

test('a record above all other bounds reaches a slow client, and reads behind it are refused', async (t) => {
  const [rig, client] = await start(t);
  const large = Buffer.alloc(24 * MIB, 'x');
  let body = large;
  let isHeld = false;
  const fill = ({ op }: { op: number }, reply: Reply): void => {
    if (op === QUERIES.read.number) bring(reply, body);
  };
  rig.gateway.script = (asked, reply) => {
    fill(asked, reply);
    // The page of metrics asks too.
    return !isHeld || (asked.op !== QUERIES.read.number && asked.op !== COMMANDS.append.number);
  };
  client.socket.pause();
  client.send([READ, 1, 'b', 's', { max_bytes: 1 }]);
  await until('its socket is full', async () => (await unsentBytes(rig)) > 16 * MIB);
  const described = rig.gateway.nextRequest();
  client.send([HEAD, 2, 'b', 's']);
  await described;
  assert.equal((await fetch(`${rig.client}/__svc/health`)).status, 200);
  client.socket.resume();
  assert.equal((await client.about(1)).body.length, large.length);
  assert.equal((await client.about(2)).kind, DONE);

  // Two reads, and one that waits behind an append.
  body = large.subarray(0, 12 * MIB);
  isHeld = true;
  client.socket.pause();
  client.send([READ, 3, 'b', 's', {}], [READ, 4, 'b', 't', {}], [APPEND, 7, 'b', 'v', Buffer.from('x'), TEXT]);
  client.send([READ, 8, 'b', 'v', {}]);
  await until('all are asked', () => rig.gateway.heldCount === 3);
  rig.gateway.release(fill);
  await until('its socket is full', async () => (await unsentBytes(rig)) > MIB);
  const unsent = await unsentBytes(rig);
  assert(unsent < 13 * MIB, `${unsent} bytes wait`);
  client.socket.resume();
  assert.equal((await client.about(3)).body.length, body.length);
  for (const id of [4, 8]) assert.equal((await client.about(id)).code, 'ANSWERS_FULL');
});

test('a subscription reads a large record again when its socket has become full meanwhile', async (t) => {
  const { node } = await startLive(t);
  const server = new HttpServerContext(node);
  const outbox = new SessionOutbox(server, '', () => undefined);
  let buffered = 0;
  outbox.open({ send: () => 1, end: () => undefined, close: () => undefined, getBufferedAmount: () => buffered });
  const frame = new Frame();
  frame.read(new MessageReader(pack([SUBSCRIBE, 1, 'b', 's', 4 * MIB, { offset: 0 }])));
  const none = (): void => undefined;
  const rights = { metersOf: (): RequestMeters => new RequestMeters(server.limits) };
  const turns = new ReadTurns(outbox);
  const owner = { server, requestId: '', outbox, turns, tailEvent: new TailEvent(), refuse: none, wrote: none, rights };
  const subscription = new FollowedStream(owner, frame);
  assert.equal(subscription.start(frame), undefined);
  buffered = 2 * MIB;
  outbox.countUnsent();
  const reply = new Reply();
  bring(reply, Buffer.alloc(MIB));
  subscription.onReply(reply);
  assert.equal(outbox.out.length, 0, 'it is not kept');
  const resume = t.mock.method(subscription, 'resume');
  buffered = 0;
  outbox.countUnsent();
  owner.turns.resume();
  assert.equal(resume.mock.callCount(), 1);
  subscription.leave();
});

test('a read counts at least as one record', async (t) => {
  const [rig, client] = await start(t);
  rig.gateway.script = () => false;
  client.send(...Array.from({ length: 129 }, (_, id) => [READ, id, 'b', `s${id}`, { max_bytes: 1 }]));
  assert.equal((await client.about(128)).code, 'SESSION_FULL');
  assert.equal(rig.gateway.heldCount, 128);
  client.send(...Array.from({ length: 100 }, (_, id) => [SUBSCRIBE, 200 + id, 'b', `s${200 + id}`, 1, { offset: 0 }]));
  assert.equal((await client.ask(READ, 128, 'b', 's', {})).code, 'SESSION_FULL');
  assert.equal(rig.gateway.heldCount, 128 + 32);
});

test('a read counts as much as it may bring, however often its bound is named', async (t) => {
  const [rig, client] = await start(t);
  rig.gateway.script = () => false;
  for (const [round, bounds] of [
    [1, MIB],
    [1, 'x'],
    [MIB, 1, 'x'],
  ].entries()) {
    const options = bounds.map((bound) => pack('max_bytes', bound));
    const frames = Array.from({ length: 9 }, (_, id) => readWith(10 * round + id, `s${id}`, options));
    client.sendBytes(Buffer.concat(frames));
    assert.equal((await client.about(10 * round + 8)).code, 'SESSION_FULL', bounds.join());
    assert.deepEqual(new Set(rig.gateway.asked.map(({ maxBytes }) => maxBytes % MIB)), new Set([0]));
    rig.gateway.release();
    for (let id = 0; id < 8; id++) await client.about(10 * round + id);
  }
});

test('answers to pings that a client leaves untaken are counted', async (t) => {
  const [rig, client] = await start(t);
  client.socket.pause();
  const pings = Buffer.concat(Array.from({ length: 8000 }, () => frameOf(OP_PING, Buffer.alloc(125))));
  for (let i = 0; i < 60 && (await unsentBytes(rig)) < MIB; i++) {
    await new Promise<void>((resolve) => void client.socket.write(pings, () => resolve()));
  }
  assert((await unsentBytes(rig)) >= MIB);
  client.destroy();
  await until('nothing is left', async () => (await unsentBytes(rig)) === 0);
});

test('a client that takes nothing for too long is cut, whatever it sends, and one that takes a little is not', async (t) => {
  const { node, advance } = await startLive(t);
  const outbox = new SessionOutbox(new HttpServerContext(node), '', () => undefined);
  let buffered = 0;
  outbox.open({
    send: () => (buffered += 1000),
    end: () => undefined,
    close: () => outbox.close(),
    getBufferedAmount: () => buffered,
  });
  const write = (): void => {
    outbox.out.uint(1);
    outbox.send();
  };
  write();
  advance(READER_STALL_MS_MAX - 1000);
  write();
  buffered -= 1;
  outbox.countUnsent();
  advance(READER_STALL_MS_MAX - 1000);
  buffered = 0;
  outbox.countUnsent();
  advance(2 * READER_STALL_MS_MAX);
  assert(outbox.isOpen, 'it took everything');
  write();
  advance(READER_STALL_MS_MAX - 1000);
  write();
  assert(outbox.isOpen);
  advance(1100);
  assert.deepEqual([outbox.isOpen, node.backpressure.usedBytes, node.live.clock.size], [false, 0, 0]);
});

test('answers to pings end a session while the node has too many unsent bytes', async (t) => {
  const { node } = await startLive(t);
  const outbox = new SessionOutbox(new HttpServerContext(node), '', () => undefined);
  const open = { send: () => 1, end: () => undefined, close: () => outbox.close(), getBufferedAmount: () => 70_000 };
  outbox.open(open);
  outbox.queued();
  assert(outbox.isOpen);
  node.backpressure.usedBytes += 128 * MIB;
  outbox.queued();
  assert.deepEqual([outbox.isOpen, node.backpressure.usedBytes], [false, 128 * MIB]);
});

test('a bug that shows after its socket was closed does not reach the library', () => {
  const failures: unknown[] = [];
  let hear: ((socket: unknown) => void) | undefined;
  const app = { ws: (_: string, { drain }: { drain: typeof hear }) => void (hear = drain) };
  const fail = (): never => assert.fail('planned');
  serveSockets(app as unknown as UwsApp, {
    path: '/',
    limits: new Sessions().limits,
    log: (error) => failures.push(error),
    upgrade: () => undefined,
    left: () => undefined,
  });
  const owner = { operation: 'session', requestId: '1', drained: fail };
  hear?.({ getUserData: () => ({ owner }), end: () => assert.fail('closed') });
  assert.equal(failures.length, 1);
});
