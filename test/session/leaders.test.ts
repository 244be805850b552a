// Clients are told which nodes lead, and again when others do: only of nodes that say where clients reach them, and
// not behind answers that a client does not take.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { READER_BUFFER_BYTES_MAX } from '../../src/base/limits.ts';
import { HttpServerContext } from '../../src/http/server-context.ts';
import { Frame } from '../../src/session/frame.ts';
import { MessageWriter } from '../../src/session/messagepack.ts';
import { writeLeaders } from '../../src/session/messages.ts';
import { TailEvent } from '../../src/session/outbox.ts';
import { ClientSession } from '../../src/session/session.ts';
import { Sessions } from '../../src/session/sessions.ts';
import { startLive } from '../http/live/harness.ts';
import { startPlanes } from '../http/planes.ts';
import { withCluster } from '../support/cluster.ts';
import { until } from '../support/until.ts';
import { SessionClient } from './client.ts';

const [A, B] = ['http://a:4437', 'http://b:4437'];

test('sessions through every node are told who leads, and that another node does', async () => {
  const urlOf = (id: number): string => `http://node${id}.example:4437`;
  // Node 3 does not say where clients reach it.
  const server = (id: number): string => (id === 3 ? '' : `public_url = "${urlOf(id)}"`);
  await withCluster({ groups: 3, server }, async (cluster) => {
    const clients = await Promise.all(cluster.ids.map((id) => SessionClient.connect(cluster.node(id).port)));
    const areTold = (shown: readonly (string | null)[]): boolean =>
      clients.every(({ leaders }) => String(leaders?.groups) === String(shown));
    // Each of the three leads one, so the balancer leaves them there; on the way it may move one that was there already.
    for (const order of [
      [1, 2, 3],
      [2, 3, 1],
    ]) {
      const shown = order.map((id) => (id === 3 ? null : urlOf(id)));
      await until('all clients are told', async () => {
        await Promise.all(order.map((to, group) => cluster.moveLeader(group, to)));
        return areTold(shown);
      });
    }
    assert.deepEqual(
      clients.map((client) => client.leaders?.self),
      [urlOf(1), urlOf(2), null],
    );
    for (const client of clients) client.destroy();
  });
});

test('nothing is told before a leader is known, and nothing twice', async (t) => {
  const sessions = new Sessions();
  const rig = await startPlanes(t, {}, true, { sessions });
  const early = await SessionClient.connect(rig.port);
  sessions.tellLeaders(A, ['', '']);
  sessions.tellLeaders(A, [A, B]);
  sessions.tellLeaders(A, [A, B]);
  await early.until(() => early.leaders !== undefined);
  const late = await SessionClient.connect(rig.port);
  await late.until(() => late.leaders !== undefined);
  for (const client of [early, late]) assert.deepEqual(client.leaders, { self: A, groups: [A, B] });
  // An election: no one leads the second group.
  sessions.tellLeaders(A, [A, '']);
  for (const client of [early, late]) await client.until(() => client.leaders?.groups[1] === null);
  assert.deepEqual([early.leadersTold, late.leadersTold, early.told, late.told], [2, 2, [], []]);
  for (const client of [early, late]) client.destroy();
});

test('a client that takes nothing is told of the last leaders alone, when it takes something', async (t) => {
  const { node } = await startLive(t);
  const messageOf = (...leaders: string[]): Uint8Array => {
    const out = new MessageWriter();
    writeLeaders(out, '', leaders);
    return out.written;
  };
  const [first, second, third] = [messageOf(A, B), messageOf(B, B), messageOf(B, A)];
  let [leaders, unsentBytes] = [first, 0];
  const sent: Buffer[] = [];
  const server = new HttpServerContext(node);
  const session = new ClientSession(
    { server, frame: new Frame(), tailEvent: new TailEvent(), leaders: () => leaders, ended: () => undefined },
    { requestId: 'id', credentials: 'open', sender: { from: '' } },
  );
  session.opened({
    send: (bytes) => sent.push(Buffer.from(bytes as Uint8Array)),
    end: () => undefined,
    close: () => undefined,
    getBufferedAmount: () => unsentBytes,
  });
  assert(sent.length === 1 && sent[0]?.subarray(-first.length).equals(first), 'behind HELLO');
  unsentBytes = READER_BUFFER_BYTES_MAX + 1;
  session.drained();
  for (const message of [second, third]) {
    leaders = message;
    session.tellLeaders();
  }
  await Promise.resolve();
  assert.equal(sent.length, 1, 'not while it takes nothing');
  unsentBytes = 0;
  session.drained();
  session.drained();
  await Promise.resolve();
  assert.deepEqual(sent.slice(1), [Buffer.from(third)]);
  session.closed();
});
