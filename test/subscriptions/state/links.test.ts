// Which streams a subscription has, and what becomes of their cursors.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  BODY_BYTES_MAX,
  SUBSCRIPTIONS_MAX,
  SUBSCRIPTION_LINKS_MAX,
  SUBSCRIPTION_STATE_BYTES_MAX,
} from '../../../src/base/limits.ts';
import type { LinkPosition } from '../../../src/subscriptions/state/subscription.ts';
import { showSubscription } from '../../../src/subscriptions/state/show.ts';
import { PULL, Scene, WEBHOOK } from './scene.ts';

const SIGNING = { alg: 'ed25519', kid: 'k', jwks_url: 'u' } as const;

function types(scene: Scene): Record<string, string> {
  const shown = showSubscription(scene.sub, SIGNING, '');
  const streams = shown['streams'] as readonly { path: string; link_type: string }[];
  return Object.fromEntries(streams.map(({ path, link_type: type }) => [path, type]));
}

test('explicit wins over glob; without it the glob remains as long as the pattern matches', () => {
  const scene = Scene.with({ ...WEBHOOK, streams: ['other/x'] }, ['events/a', 1, 5], ['other/x', 1, 7]);
  assert.deepEqual(types(scene), { 'events/a': 'glob', 'other/x': 'explicit' });
  scene.does('OK', { op: 'add', ...scene.about, links: [['events/a', 1, 99]] });
  assert.deepEqual(types(scene), { 'events/a': 'explicit', 'other/x': 'explicit' });
  assert.equal(scene.acked('events/a'), 5, 'a cursor does not move by being named again');
  scene.does('OK', { op: 'remove', ...scene.about, path: 'events/a' });
  scene.does('OK', { op: 'remove', ...scene.about, path: 'other/x' });
  scene.does('OK', { op: 'remove', ...scene.about, path: 'other/x' });
  assert.deepEqual(types(scene), { 'events/a': 'glob' });
});

test('streams that appear are linked from their beginning, each once; strangers and the own wake stream never', () => {
  const scene = Scene.with(PULL);
  const links: LinkPosition[] = [
    ['events/a', 1, 0],
    ['events/wake', 1, 0],
    ['elsewhere/a', 1, 0],
  ];
  scene.does('OK', { op: 'link', ...scene.about, links });
  assert.deepEqual(types(scene), { 'events/a': 'glob' });
  scene.does('IGNORED', { op: 'link', ...scene.about, links });
});

test('a stream that is gone loses a glob link; an explicit one waits for the next of its name', () => {
  const scene = Scene.with({ ...WEBHOOK, streams: ['x'] }, ['events/a', 3, 50], ['x', 3, 50]);
  scene.does('OK', { op: 'gone', ...scene.about, path: 'events/a', incarnation: 3 });
  scene.does('OK', { op: 'gone', ...scene.about, path: 'x', incarnation: 3 });
  assert.deepEqual(types(scene), { x: 'explicit' });
  scene.append('x', 10, 8);
  const wake = scene.wakes('x');
  scene.ack('OK', wake, [['x', 8, 10]], true);
  // News of the end of an older one comes late.
  scene.does('IGNORED', { op: 'gone', ...scene.about, path: 'x', incarnation: 3 });
  assert.equal(scene.acked('x'), 10);
});

test('a wake binds the cursor of a stream that came after its link', () => {
  const scene = Scene.with({ ...WEBHOOK, streams: ['x'] }, ['x', 0, 0]);
  scene.append('x', 10, 5);
  const wake = scene.wakes('x');
  scene.does('OK', { op: 'done', ...scene.about, wake });
  assert.deepEqual(scene.sub.links.get('x'), { incarnation: 5, acked: 10, explicit: true });
  scene.does('OK', { op: 'gone', ...scene.about, path: 'x', incarnation: 5 });
  assert.deepEqual(scene.sub.links.get('x'), { incarnation: 0, acked: 0, explicit: true });
});

test('a stream that is recreated during a wake is not acknowledged by it', () => {
  const scene = Scene.with({ ...WEBHOOK, streams: ['x'] }, ['x', 1, 0]);
  scene.append('x', 100, 1);
  const wake = scene.wakes('x');
  scene.does('OK', { op: 'gone', ...scene.about, path: 'x', incarnation: 1 });
  scene.append('x', 20, 2);
  scene.does('OK', { op: 'done', ...scene.about, wake });
  assert.equal(scene.acked('x'), 0);
  scene.wakes('x');
});

test('a cursor beyond the end of its stream goes back to it, and one of another creation stays', () => {
  const scene = Scene.with(WEBHOOK, ['events/a', 3, 50]);
  scene.does('IGNORED', { op: 'rewind', ...scene.about, path: 'events/a', incarnation: 2, offset: 20 });
  scene.does('OK', { op: 'rewind', ...scene.about, path: 'events/a', incarnation: 3, offset: 20 });
  scene.does('IGNORED', { op: 'rewind', ...scene.about, path: 'events/a', incarnation: 3, offset: 30 });
  assert.equal(scene.acked('events/a'), 20);
});

test('the tail of another creation of a stream is not compared with its cursor', () => {
  const scene = Scene.with(WEBHOOK, ['events/a', 3, 50]);
  scene.append('events/a', 100, 4);
  assert.deepEqual(scene.step(), { do: 'rest' });
});

test('the same configuration again is the same subscription; another one is refused', () => {
  const scene = Scene.with(WEBHOOK, ['events/a', 1, 5]);
  const again = { op: 'create', ...scene.about, config: WEBHOOK, base: '', links: [['events/a', 1, 9]] } as const;
  scene.does('OK', { ...again, hash: scene.sub.hash });
  assert.equal(scene.acked('events/a'), 5);
  scene.does('SUBSCRIPTION_ALREADY_EXISTS', { ...again, hash: 'another' });
});

test('subscriptions, streams and bytes have bounds', () => {
  const scene = Scene.with(WEBHOOK);
  const links = Array.from({ length: SUBSCRIPTION_LINKS_MAX }, (_, i): LinkPosition => [`events/${i}`, 1, 0]);
  scene.does('OK', { op: 'link', ...scene.about, links });
  scene.does('LIMIT_EXCEEDED', { op: 'link', ...scene.about, links: [['events/more', 1, 0]] });
  scene.does('LIMIT_EXCEEDED', { op: 'add', ...scene.about, links: [['x', 1, 0]] });
  assert.equal(scene.sub.links.size, SUBSCRIPTION_LINKS_MAX);

  const long = 'x'.repeat(900);
  const wide = links.map(([path], i): LinkPosition => [`events/${long}${i}`, 1, path.length]);
  const config = { ...WEBHOOK, pattern: '**' };
  scene.does('LIMIT_EXCEEDED', { op: 'create', id: 'wide', at: 0, config, hash: '', base: '', links: wide });
  assert(scene.machine.bytes < SUBSCRIPTION_STATE_BYTES_MAX);

  const before = scene.machine.bytes;
  for (let i = 1; i < SUBSCRIPTIONS_MAX; i++) {
    scene.does('CREATED', { op: 'create', id: `n${i}`, at: 0, config: PULL, hash: '', base: '', links: [] });
  }
  scene.does('LIMIT_EXCEEDED', { op: 'create', id: 'more', at: 0, config: PULL, hash: '', base: '', links: [] });
  for (let i = 1; i < SUBSCRIPTIONS_MAX; i++) scene.does('OK', { op: 'delete', id: `n${i}`, at: 0 });
  assert.equal(scene.machine.bytes, before);
  scene.does('OK', { op: 'delete', ...scene.about });
  assert.deepEqual([scene.machine.bytes, scene.machine.links], [0, 0]);
});

test('everything that fits is one append in a checkpoint, with names that JSON writes six times as long', () => {
  const scene = Scene.with(WEBHOOK);
  const hard = '\u0001'.repeat(1000);
  const links = Array.from({ length: 5000 }, (_, i): LinkPosition => [`events/${hard}${i}`, 1, 0]);
  scene.does('LIMIT_EXCEEDED', { op: 'link', ...scene.about, links });
  assert(scene.sub.links.size > 1000);
  const tails = links.slice(0, scene.sub.links.size).map(([path]): LinkPosition => [path, 1, 10]);
  scene.does('OK', { op: 'wake', ...scene.about, wake: 'w', generation: 1, tails });
  const bytes = Buffer.byteLength(JSON.stringify(scene.machine.checkpoint()));
  assert(bytes > SUBSCRIPTION_STATE_BYTES_MAX / 2 && bytes < BODY_BYTES_MAX, String(bytes));
});
