// Order, bounds and the end of a session, over a stand-in for the shards that answers when the test says so.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { errorNumber } from '../../src/base/errors.ts';
import { COMMANDS } from '../../src/protocol/operations.ts';
import { HttpServerContext } from '../../src/http/server-context.ts';
import { SessionOutbox } from '../../src/session/outbox.ts';
import { startLive } from '../http/live/harness.ts';
import { type Rig, startPlanes } from '../http/planes.ts';
import { until } from '../support/until.ts';
import { APPEND, CREATE, DELETE, DONE, GO_AWAY, HEAD, READ, SessionClient, SUBSCRIBE, TEXT } from './client.ts';

const X = Buffer.from('x');

async function start(t: TestContext, settings: Parameters<typeof startPlanes>[1] = {}): Promise<[Rig, SessionClient]> {
  const rig = await startPlanes(t, settings);
  const client = await SessionClient.connect(rig.port);
  t.after(() => client.destroy());
  return [rig, client];
}

function append(id: number, stream = 's', body: Uint8Array = X): unknown[] {
  return [APPEND, id, 'b', stream, body, TEXT];
}

test('answers about a stream keep its order, whatever order its shard answers in', async (t) => {
  const [rig, client] = await start(t);
  let asked = 0;
  // Every second one is answered late; the fourth is refused without a shard.
  rig.gateway.script = () => asked++ % 2 === 0;
  client.send(append(1), append(2), append(3), [APPEND, 4, 'b', 's', X, {}], append(5, 't'), append(6, 'u'));
  await client.about(6);
  await until('two are answered late', () => rig.gateway.heldCount === 2);
  assert.deepEqual(
    client.told.map(({ id }) => id),
    [1],
  );
  rig.gateway.release();
  for (const id of [1, 2, 3, 4]) assert.equal((await client.take(({ id: one }) => one < 5)).id, id);
  assert.equal((await client.about(5)).kind, DONE);
});

test('appends are under way together; all else waits for its turn', async (t) => {
  const [rig, client] = await start(t);
  rig.gateway.script = () => false;
  const ops = (): number[] => rig.gateway.asked.map(({ op }) => op);
  client.send(append(1), append(2), [HEAD, 3, 'b', 's'], [HEAD, 4, 'b', 's'], append(5), append(6), [
    DELETE,
    7,
    'b',
    's',
    {},
  ]);
  const asked: number[] = [];
  for (const step of [2, 1, 1, 2, 1]) {
    await until(`${step} more are asked`, () => rig.gateway.heldCount === step);
    asked.push(ops().length);
    rig.gateway.release();
  }
  assert.deepEqual(asked, [2, 3, 4, 6, 7]);
  for (let id = 1; id <= 7; id++) assert.equal((await client.take(() => true)).id, id);
});

test('requests of one message are handed over in one turn', async (t) => {
  const [rig, client] = await start(t);
  rig.gateway.script = () => false;
  const arrived = rig.gateway.nextRequest();
  client.send(...Array.from({ length: 100 }, (_, id) => append(id, `s${id}`)));
  await arrived;
  // Nothing else ran between the first and the last.
  assert.equal(rig.gateway.asked.length, 100);
  await until('all of them wait', () => rig.gateway.heldCount === 100);
  const before = client.messages;
  rig.gateway.release();
  for (let id = 0; id < 100; id++) await client.about(id);
  assert.equal(client.messages, before + 1, 'and their answers leave in one message');
});

test('a session may have so many requests, bytes, reads and subscriptions under way', async (t) => {
  const [rig, client] = await start(t, { inflightBodyBytes: 2_000_000 });
  rig.gateway.script = () => false;
  const requests = client.hello['requests'] ?? 0;
  client.send(...Array.from({ length: requests + 1 }, (_, id) => append(id, `s${id}`)));
  const many = await client.about(requests);
  assert.deepEqual([many.status, many.code, many.fields], [429, 'SESSION_FULL', { 'retry-after': '1' }]);
  assert.match(many.sentence, /1024 requests are under way/);
  rig.gateway.release();
  for (let id = 0; id < requests; id++) await client.about(id);

  const large = Buffer.alloc(200_000);
  for (let id = 0; id < 6; id++) client.send(append(id, `s${id}`, large));
  assert.match((await client.about(5)).sentence, /of 1048576 bytes are under way, and 2000/);
  // Another session finds the budget of the node nearly used up.
  const other = await SessionClient.connect(rig.port);
  for (let id = 0; id < 5; id++) other.send(append(id, `s${id}`, large));
  assert.deepEqual([(await other.about(4)).code], ['INFLIGHT_FULL']);
  other.destroy();
  rig.gateway.release();
  for (let id = 0; id < 5; id++) await client.about(id);

  for (let id = 0; id < 9; id++) client.send([READ, id, 'b', `s${id}`, {}]);
  assert.match((await client.about(8)).sentence, /reads of 8388608 of 8388608 bytes are under way/);
  assert.equal((await client.ask(READ, 9, 'b', 's', { max_bytes: 1 })).code, 'SESSION_FULL');
  rig.gateway.release();
  for (let id = 0; id < 8; id++) await client.about(id);
  client.send([READ, 9, 'b', 's', { max_bytes: 1 }]);
  await until('the read is asked', () => rig.gateway.heldCount === 1);
});

test('a full mailbox, a shard that refuses, and live readers beyond their bound are refusals', async (t) => {
  const [rig, client] = await start(t, { watchersPerCoreMax: 1 });
  rig.gateway.full = true;
  assert.deepEqual((await client.ask(HEAD, 1, 'b', 's')).code, 'SHARD_BUSY');
  rig.gateway.full = false;
  rig.gateway.script = (_, reply) => void (reply.code = errorNumber('NO_LEADER'));
  const refused = await client.ask(CREATE, 1, 'b', 's', null, TEXT);
  assert.deepEqual([refused.status, refused.code, refused.fields], [503, 'NO_LEADER', { 'retry-after': '1' }]);
  rig.gateway.script = () => false;
  client.send(...[1, 2, 3].map((id) => [SUBSCRIBE, id, 'b', 's', 1, { offset: 0 }]));
  assert.equal((await client.about(3)).code, 'WATCHERS_FULL');
});

test('a bug in an answer is one refusal, and the session goes on', async (t) => {
  const [rig, client] = await start(t);
  rig.gateway.script = ({ op }, reply) => {
    // An offset that cannot be written.
    if (op === COMMANDS.append.number)
      Object.assign(reply, { flags: 8, a: { toString: () => assert.fail('planned') } });
  };
  assert.equal((await client.ask(APPEND, 1, 'b', 's', X, TEXT)).code, 'INTERNAL');
  assert.equal(rig.errors.splice(0).length, 1);
  assert.equal((await client.ask(HEAD, 2, 'b', 's')).kind, DONE);
});

test('what a client left behind is given back when its shard has answered', async (t) => {
  const rig = await startPlanes(t);
  const client = await SessionClient.connect(rig.port);
  rig.gateway.script = () => false;
  client.send(append(1), append(2), [HEAD, 3, 'b', 's'], [SUBSCRIBE, 4, 'b', 't', 9, { offset: 0 }], append(5, 'u'));
  await until('four are asked', () => rig.gateway.heldCount === 4);
  assert(rig.planes.openRequests() >= 4);
  client.destroy();
  await until('the session is gone', () => rig.counters.sessions.open === 0);
  rig.gateway.release();
  await until('nothing is open', () => rig.planes.openRequests() === 0);
  assert.deepEqual([rig.counters.live.subscriptions, rig.gateway.asked.length], [0, 4]);
});

test('a node that stops refuses what comes, answers what is under way, and then ends the session', async (t) => {
  const [rig, client] = await start(t);
  rig.gateway.script = () => false;
  client.send(append(1));
  await until('it is asked', () => rig.gateway.heldCount === 1);
  const closed = rig.planes.close(20_000);
  assert.match((await client.take(({ kind }) => kind === GO_AWAY)).sentence, /open another one/);
  assert.equal((await client.ask(HEAD, 2, 'b', 's')).code, 'STOPPING');
  rig.gateway.release();
  assert.equal((await client.about(1)).kind, DONE);
  assert.equal(await client.ended(), 1001);
  await closed;
});

test('a client that takes no answers is cut at its bound, and sooner while the node has too many of them', async (t) => {
  const [rig, client] = await start(t);
  client.socket.pause();
  // Refusals are answers that cannot wait.
  const frames = Array.from({ length: 4000 }, (_, id) => [HEAD, id, '', 'x'.repeat(40)]);
  for (let i = 0; i < 200 && rig.counters.sessions.open > 0; i++) {
    client.send(...frames);
    await new Promise((resolve) => void setImmediate(resolve));
  }
  await until('the session is cut', () => rig.counters.sessions.open === 0);

  const { node } = await startLive(t);
  const outbox = new SessionOutbox(new HttpServerContext(node), '', () => undefined);
  const written: number[] = [];
  outbox.open({
    send: () => (written.push(outbox.out.length), 0),
    end: () => undefined,
    close: () => outbox.close(),
    getBufferedAmount: () => written.reduce((sum, bytes) => sum + bytes, 0),
  });
  const write = (): void => {
    outbox.out.bytes(new Uint8Array(40_000));
    outbox.send();
  };
  write();
  assert.deepEqual([outbox.isOpen, outbox.isStalled, node.backpressure.usedBytes], [true, false, written[0]]);
  node.backpressure.usedBytes += 128 * 1024 * 1024;
  assert.equal(outbox.isStalled, true);
  write();
  assert.deepEqual([outbox.isOpen, node.backpressure.usedBytes], [false, 128 * 1024 * 1024]);
});
