// Two clusters with one name and secret: nodes that learn late which one they belong to.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { AcceptorHandshake, ConnectorHandshake } from '../../src/peer/handshake.ts';
import { type PeerIdentity, NONCE_BYTES } from '../../src/peer/codec/handshake.ts';
import type { Standing } from '../../src/peer/codec/standing.ts';
import { GROUP_COUNT, HOST, SECRET, type TestPeer, Waiter, makePeer } from './fixture.ts';

const SELF = { clusterId: 'test', groupCount: GROUP_COUNT, node: 2, shard: 0, shardCount: 1, boot: 77 };

function standingOf(digit: string): Standing {
  return { identity: digit.repeat(32), directory: digit.repeat(16), incarnation: 1, settled: [], remembers: undefined };
}

function reasons(peer: TestPeer): string {
  return peer
    .warnings()
    .map(({ message, fields }) => `${message}: ${String(fields['reason'])}`)
    .join('\n');
}

test('a node that learns its cluster late ends the links with peers of another, and says why', async (t) => {
  const waiter = new Waiter();
  let mine = '';
  const standing = (): Standing => ({ ...standingOf('a'), identity: mine });
  const limits = { tickMs: 20, logWindowMs: 0 };
  const one = makePeer(t, waiter, 1, { standing, limits });
  const two = makePeer(t, waiter, 2, { standing: () => standingOf('b') });
  const peers = [
    { node: 1, address: { host: HOST, port: await one.peers.start() } },
    { node: 2, address: { host: HOST, port: await two.peers.start() } },
  ];
  one.peers.setPeers(peers);
  two.peers.setPeers(peers);
  await waiter.until('both ways', () => one.peers.connected(2, 0) && two.peers.connected(1, 0));
  mine = 'a'.repeat(32);
  await waiter.until('the end', () => !one.peers.connected(2, 0) && one.peers.counters().peer_sessions === 0);
  const told = /other-cluster: .* node 2 is of cluster b{32}, that of node 1 of a{32}; give each cluster its own/;
  assert.match(reasons(one), new RegExp(`peer link is lost: ${told.source}`));
  assert.match(reasons(one), new RegExp(`peer connection closed: ${told.source}`));
});

test('a connector that learns its cluster while it shakes hands looks at what it is by then', () => {
  const introduce = (digit: string, node: number): PeerIdentity => ({ ...SELF, node, standing: standingOf(digit) });
  const accept = new AcceptorHandshake({
    introduce: () => introduce('b', 1),
    secret: SECRET,
    nonce: randomBytes(NONCE_BYTES),
  });
  const hello = { self: SELF, toNode: 1, toShard: 0, nonce: randomBytes(NONCE_BYTES) };
  const connect = new ConnectorHandshake(hello, SECRET, undefined, () => introduce('a', 2));
  const challenge = accept.receive(connect.start());
  assert(challenge.kind === 'say');
  const proof = connect.receive(challenge.bytes);
  assert(proof.kind === 'say');
  const welcome = accept.receive(proof.bytes);
  assert(welcome.kind === 'done');
  const end = connect.receive(welcome.say);
  assert(end.kind === 'over');
  assert.equal(end.refusal.code, 'other-cluster');
});
