// Peers that are not welcomed yet, and links that must wait: they are tried again until they are up.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HOST, Waiter, makePeer, reasons } from './fixture.ts';

test('a peer that is not welcomed yet is told nothing, and tries again until it is', async (t) => {
  const waiter = new Waiter();
  const one = makePeer(t, waiter, 1);
  one.heard.notYet = { hello: 'the disk is full' };
  const two = makePeer(t, waiter, 2);
  const port = await one.peers.start();
  await two.peers.start();
  two.peers.setPeers([{ node: 1, address: { host: HOST, port } }]);
  const hellos = (): number => one.heard.introduced.filter(([word]) => word === 'hello').length;
  await waiter.until('a second attempt', () => hellos() >= 2);
  assert.deepEqual([two.heard.introduced, two.heard.links, one.peers.counters().peer_sessions], [[], [], 0]);
  assert.match(reasons(one.warnings()), /the disk is full/);
  one.heard.notYet = {};
  await waiter.until('the link', () => two.peers.connected(1, 0));
});

test('a link that must wait is not up, and is tried again', async (t) => {
  const waiter = new Waiter();
  const one = makePeer(t, waiter, 1);
  const two = makePeer(t, waiter, 2);
  two.heard.notYet = { welcome: 'a checkpoint hangs' };
  const port = await one.peers.start();
  await two.peers.start();
  two.peers.setPeers([{ node: 1, address: { host: HOST, port } }]);
  await waiter.until('a second attempt', () => two.heard.introduced.length >= 2);
  assert.deepEqual([two.heard.links, two.peers.connected(1, 0)], [[], false]);
  assert.match(reasons(two.warnings()), /cannot link to peer: a checkpoint hangs/);
  two.heard.notYet = {};
  await waiter.until('the link', () => two.peers.connected(1, 0));
  assert.deepEqual(two.heard.links, ['up 1/0']);
});
