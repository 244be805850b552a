// The data directories of earlier versions, and a client's view of them.
import assert from 'node:assert/strict';
import { type Ports, type World, aboutStreams, describeWorld, fillWorld } from '../backup/world.ts';
import { until } from '../support/until.ts';
import { createRandom } from '../support/random.ts';
import { requestOnce } from '../support/raw-client.ts';

export const GROUPS = 2;
const COLD_TOML = '[storage.cold]\nbackend = "dir"\nroot = "test"\nflush_interval = "1h"\n';
/** Takes a backup: subscriptions are shown when there is a new key, which those draw who deliver. */
export const RESTORED = {
  cores: 1,
  groups: GROUPS,
  toml: COLD_TOML,
  // The answers were written down when that was the default.
  http: 'cors_origins = ["*"]',
};
/** A disk of the single node has a cold store too; nothing is flushed but what is asked for. */
export const SINGLE = { ...RESTORED, toml: `${COLD_TOML}\n[subscriptions]\ndeliver = false\n` };
/** These lines go on with the table [http]. */
export const CLUSTER = { groups: GROUPS, toml: 'cors_origins = ["*"]' };

/** The nodes of a cluster share a cold store; nothing is flushed but what is asked for. */
export const clusterWithCold = (directory: string): typeof CLUSTER => ({
  groups: GROUPS,
  toml: [
    CLUSTER.toml,
    `[storage.cold]\nbackend = "dir"\ndir = "${directory}"\nroot = "test"\nflush_interval = "1h"`,
    '[subscriptions]\ndeliver = false',
  ].join('\n'),
});

const STREAMS = 12;
const LARGE_BYTES = 3000;
const TEXT = { 'content-type': 'text/plain' };
export const SUBSCRIPTIONS = '/v1/stream/__ds/subscriptions';
const COLD = '/cold_only/cold';
const FORKS = ['/orders/fork', '/orders/fork-of-fork'];

/**
 * Streams of all kinds: text, JSON, producers, TTL, attributes, snapshots, closed and deleted ones, forks, a
 * subscription.
 */
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
  await made('PUT', `${SUBSCRIPTIONS}/jobs`, { 'content-type': 'application/json' }, wish);
  return { ...world, streams: [...world.streams, '/orders/source', ...FORKS] };
}

/** A stream whose bytes lie in the cold store, but for the last. */
export async function addCold(nodes: readonly Ports[], world: World): Promise<World> {
  const { port } = nodes[0] as Ports;
  await requestOnce(port, 'PUT', COLD, TEXT, Buffer.from('c'.repeat(LARGE_BYTES)));
  await flushCold(nodes, COLD);
  await requestOnce(port, 'POST', COLD, TEXT, Buffer.from('hot'));
  return { ...world, streams: [...world.streams, COLD] };
}

/** Only the leader of the stream's group does it. */
export async function flushCold(nodes: readonly Ports[], path: string): Promise<void> {
  const answers: string[] = [];
  for (const { adminPort } of [...nodes, ...nodes]) {
    const { status, body } = await requestOnce(adminPort, 'POST', `/__svc/flush-cold${path}`);
    if (status === 200) return;
    answers.push(body.toString());
  }
  assert.fail(answers.join('\n'));
}

/** Shown once the node has caught up, and after a restore once there is a new key. */
export async function subscription({ port }: Ports, id: string): Promise<Record<string, unknown>> {
  let shown: Record<string, unknown> = {};
  await until(`the subscription ${id} is shown`, async () => {
    const { status, body } = await requestOnce(port, 'GET', `${SUBSCRIPTIONS}/${id}`);
    shown = JSON.parse(body.toString()) as Record<string, unknown>;
    return status === 200;
  });
  return shown;
}

export async function describe(ports: Ports, world: World): Promise<Record<string, unknown>> {
  const { id, type, pattern } = await subscription(ports, 'jobs');
  const seen = { ...(await describeWorld(ports, world)), subscription: [id, type, pattern] };
  return aboutStreams(seen);
}
