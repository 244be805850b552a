// Clients that take nothing, or take back what they asked for: what they hold is bounded, and a session that ends has
// delivered its answers.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { SESSION_FOLLOW_BYTES_MAX } from '../../src/base/limits.ts';
import { HttpServerContext } from '../../src/http/server-context.ts';
import { QUERIES } from '../../src/protocol/operations.ts';
import { REPLY_UP_TO_DATE, type Reply } from '../../src/protocol/reply.ts';
import { Frame } from '../../src/session/frame.ts';
import { MessageReader } from '../../src/session/messagepack.ts';
import { ReadTurns, SessionOutbox } from '../../src/session/outbox.ts';
import { FollowedStream } from '../../src/session/subscription.ts';
import { startLive } from '../http/live/harness.ts';
import { type Rig, startPlanes } from '../http/planes.ts';
import { until } from '../support/until.ts';
import { DONE, GO_AWAY, HEAD, READ, REFUSED, SUBSCRIBE, SessionClient, UNSUBSCRIBE, pack } from './client.ts';

const MUCH = 1_000_000;

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
  const owner = { server, requestId: '', outbox, turns, refuse: none, wrote: none };
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
