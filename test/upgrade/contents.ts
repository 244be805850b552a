// What the data directories of the version before hold, how they are packed, and what a client sees of them.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { type Ports, type World, aboutStreams, describeWorld, fillWorld } from '../backup/world.ts';
import { REPO_ROOT } from '../support/paths.ts';
import { createRandom } from '../support/random.ts';
import { requestOnce } from '../support/raw-client.ts';

export const GOLDEN: string = join(REPO_ROOT, 'test', 'upgrade', 'version-0.1.0');
export const GROUPS = 2;
/** A disk of the single node has a cold store too; nothing is flushed but what is asked for. */
export const SINGLE = {
  cores: 1,
  groups: GROUPS,
  toml: '[storage.cold]\nbackend = "dir"\nroot = "test"\nflush_interval = "1h"\n\n[subscriptions]\ndeliver = false\n',
  // The answers were written down when that was the default.
  http: 'cors_origins = ["*"]',
};
/** These lines go on with the table [http]. */
export const CLUSTER = { groups: GROUPS, toml: 'cors_origins = ["*"]' };

const STREAMS = 12;
const LARGE_BYTES = 3000;
const TEXT = { 'content-type': 'text/plain' };
const SUBSCRIPTION = '/v1/stream/__ds/subscriptions/jobs';
const COLD = '/cold_only/cold';
const FORKS = ['/orders/fork', '/orders/fork-of-fork'];

/** What was written, and what clients were told of it. */
export interface Golden {
  readonly world: World;
  readonly seen: Record<string, unknown>;
  readonly producers: readonly unknown[];
}

/** Streams of all kinds: text, JSON, producers, TTL, attributes, snapshots, closed and deleted ones, forks, a subscription. */
export async function fill(ports: Ports): Promise<World> {
  const world = await fillWorld(ports, createRandom(21), STREAMS, LARGE_BYTES);
  const made = async (method: string, path: string, headers = {}, body = ''): Promise<void> => {
    const { status } = await requestOnce(ports.port, method, path, headers, Buffer.from(body));
    assert([200, 201, 204].includes(status), `${method} ${path}: ${status}`);
  };
  await made('PUT', '/orders/source', TEXT, 'of the source,');
  await made('PUT', FORKS[0] as string, { 'stream-forked-from': '/orders/source' });
  await made('POST', FORKS[0] as string, TEXT, 'of the fork,');
  await made('PUT', FORKS[1] as string, { 'stream-forked-from': FORKS[0] });
  const wish = '{"type":"pull-wake","pattern":"orders/*","wake_stream":"wake/pool"}';
  await made('PUT', SUBSCRIPTION, { 'content-type': 'application/json' }, wish);
  return { ...world, streams: [...world.streams, '/orders/source', ...FORKS] };
}

/** A stream whose bytes lie in the cold store, but for the last. */
export async function addCold(ports: Ports, world: World): Promise<World> {
  await requestOnce(ports.port, 'PUT', COLD, TEXT, Buffer.from('c'.repeat(LARGE_BYTES)));
  const flushed = await requestOnce(ports.adminPort, 'POST', `/__svc/flush-cold${COLD}`);
  assert.equal(flushed.status, 200, flushed.body.toString());
  await requestOnce(ports.port, 'POST', COLD, TEXT, Buffer.from('hot'));
  return { ...world, streams: [...world.streams, COLD] };
}

export async function describe(ports: Ports, world: World): Promise<Record<string, unknown>> {
  const subscription = await requestOnce(ports.port, 'GET', SUBSCRIPTION);
  const { id, type, pattern } = JSON.parse(subscription.body.toString()) as Record<string, unknown>;
  const seen = { ...(await describeWorld(ports, world)), subscription: [id, type, pattern] };
  return aboutStreams(seen);
}

export function readGolden(name: string): Golden {
  return aboutStreams(JSON.parse(gunzipSync(readFileSync(join(GOLDEN, `${name}.json.gz`))).toString()) as Golden);
}

export function writeGolden(name: string, golden: Golden): void {
  writeFileSync(join(GOLDEN, `${name}.json.gz`), gzipSync(JSON.stringify(golden)));
}

/** The folder as it was, holes and all. */
export function pack(folder: string, name: string): void {
  execFileSync('tar', ['--sparse', '--sort=name', '-czf', join(GOLDEN, `${name}.tar.gz`), '-C', folder, '.']);
}

export function unpack(name: string, folder: string): void {
  mkdirSync(folder, { recursive: true });
  execFileSync('tar', ['-xzf', join(GOLDEN, `${name}.tar.gz`), '-C', folder]);
}
