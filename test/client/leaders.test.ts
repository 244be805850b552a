// Appends go over further connections, to the nodes that lead their streams.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MillraceClient } from '../../src/client/client.ts';
import { placeOf } from '../../src/client/leaders.ts';
import type { MillraceStream } from '../../src/client/stream.ts';
import { type Frame, type NodeSide, TEXT, honest, mute, startFakes } from './fake-nodes.ts';

/** It names the other node as the leader of every third stream, one that the program does not know, and none. */
const naming = (node: NodeSide, frame: Frame): void => {
  const other = node.url.startsWith('ws://a') ? 'https://b.example' : 'http://a.example';
  if (node.got.length === 1) node.say([69, null, [other, 'http://evil.example'], [0, 1, null]]);
  honest(node, frame);
};

/** Streams of each kind. */
function named(client: MillraceClient): readonly MillraceStream[] {
  return [0n, 1n, 2n].map((group) => {
    const names = Array.from({ length: 100 }, (_, i) => `s${i}`);
    const stream = names.find((name) => placeOf({ bucket: 'b', stream: name }) % 3n === group);
    return client.stream('b', stream ?? assert.fail('there is one'), TEXT);
  });
}

test('appends go to the leader that a node names, unless the program did not name it, and elsewhere when it is gone', async (t) => {
  const { client, connections } = startFakes(t, naming, honest);
  const appendsOf = (node: NodeSide | undefined): number => (node?.got ?? []).filter(([kind]) => kind === 2).length;
  const [led, evil, unknown] = named(client);
  for (let i = 0; i < 20 && appendsOf(connections[1]) === 0; i++) await led?.append('x');
  const [home, leader] = connections;
  assert(home !== undefined && leader !== undefined);
  assert.notEqual(home.url, leader.url);
  assert.equal(appendsOf(leader), 1);
  const before = appendsOf(home);
  await evil?.append('x');
  await unknown?.append('x');
  await led?.append('x');
  assert.deepEqual([appendsOf(home), appendsOf(leader)], [before + 2, 2]);
  leader.emit('close', {});
  await led?.append('x');
  assert.deepEqual([appendsOf(home), connections.length], [before + 3, 2], 'it is not asked again at once');
});

test('a leader that takes long to open is opened once', async (t) => {
  const { client, connections } = startFakes(t, naming, mute);
  const [led] = named(client);
  for (let i = 0; i < 20 && connections.length < 2; i++) await led?.append('x');
  const now = performance.now.bind(performance);
  t.mock.method(performance, 'now', () => now() + 6000);
  await led?.append('y');
  await led?.append('z');
  assert.equal(connections.length, 2);
});
