// A place where clients meet the service over some cold store: one server, or a node of a cluster that does not lead
// the group of the stream in question. Only what an operator asks of a leader goes elsewhere.
import assert from 'node:assert/strict';
import { fnv1a64mod } from '../../src/base/hash.ts';
import { TestCluster } from '../support/cluster.ts';
import type { ColdStore } from '../support/cold-store.ts';
import { assertDocumented, sentOf } from '../support/documented.ts';
import { TestServer } from '../support/server.ts';
import { patiently } from '../support/patient.ts';
import type { Answer, Ask } from '../support/suite.ts';
import { until } from '../support/until.ts';

const GROUPS = 4;
/** So that most requests go to a node that does not lead. */
const LEADER_KEPT_MS = 500;
/** So that a large stream has several objects. */
const OBJECT_BYTES = 256 * 1024;

export interface Site {
  /** The node that answers clients about a stream. */
  nodeOf(path: string): Promise<TestServer>;
  /** The node that leads the stream's group. */
  leaderOf(path: string): Promise<TestServer>;
  readonly nodes: readonly TestServer[];
  dispose(): Promise<void>;
}

export interface SiteKind {
  readonly name: string;
  start(store: ColdStore, settings: string): Promise<Site>;
}

export const SITE_KINDS: readonly SiteKind[] = [
  {
    name: 'a single node',
    start: async (store, settings) => {
      const server = new TestServer({ cores: 1, groups: GROUPS, toml: store.toml + settings });
      await server.start();
      const node = (): Promise<TestServer> => Promise.resolve(server);
      return { nodeOf: node, leaderOf: node, nodes: [server], dispose: () => server.dispose() };
    },
  },
  {
    name: 'a follower in a cluster',
    start: async (store, settings) => {
      const cluster = await TestCluster.create({ groups: GROUPS, toml: store.toml + settings });
      await cluster.startAll();
      const groupOf = (path: string): number => {
        const [, bucket, stream] = path.split(/[/?]/) as [string, string, string];
        return fnv1a64mod(bucket, stream, GROUPS);
      };
      const found = new Map<number, { readonly leader: number; readonly atMs: number }>();
      // All nodes are asked for their metrics, which costs more than the request that wants to know.
      const lately = async (group: number): Promise<number> => {
        const known = found.get(group);
        if (known !== undefined && performance.now() - known.atMs < LEADER_KEPT_MS) return known.leader;
        const leader = await cluster.leaderOf(group);
        found.set(group, { leader, atMs: performance.now() });
        return leader;
      };
      return {
        // Always the same node until another is elected, so that it shows what it acknowledged.
        nodeOf: async (path) => cluster.node(((await lately(groupOf(path))) % 3) + 1),
        leaderOf: async (path) => cluster.node(await cluster.leaderOf(groupOf(path))),
        nodes: cluster.ids.map((id) => cluster.node(id)),
        dispose: () => cluster.dispose(),
      };
    },
  },
];

export async function ask(site: Site, target: string, { headers, body }: Omit<Ask, 'base'> = {}): Promise<Answer> {
  const space = target.indexOf(' ');
  const path = target.slice(space + 1);
  return await call(`${(await site.nodeOf(path)).url}${path}`, target.slice(0, space), headers, body);
}

/** Asks, again while the node says that it cannot answer now, and asserts the status. */
export async function expect(
  site: Site,
  status: number,
  target: string,
  what: Omit<Ask, 'base'> = {},
): Promise<Answer> {
  const { answer, mayHaveActed } = await patiently(target, () => ask(site, target, what));
  // It is there when it is created once more.
  const isExpected = answer.status === status || (mayHaveActed && status === 201 && answer.status === 200);
  assert(isExpected, `${target} instead of ${status}: ${answer.status} ${answer.text.slice(0, 300)}`);
  return answer;
}

/** Checks that the answer stands in the OpenAPI document. */
export async function call(
  url: string,
  method: string,
  headers: Readonly<Record<string, string>> = {},
  body?: string | Uint8Array<ArrayBuffer>,
): Promise<Answer> {
  const bytes = typeof body === 'string' ? new TextEncoder().encode(body) : body;
  const init = bytes === undefined ? {} : { body: bytes };
  const response = await fetch(url, { method, headers, redirect: 'manual', ...init });
  const text = await response.text();
  assertDocumented(method, url, response, text, sentOf(headers, body));
  return { status: response.status, headers: response.headers, text };
}

/** Moves all of a stream to the cold store and waits until the node that answers clients knows. */
export async function flush(site: Site, path: string): Promise<void> {
  let frontier = '';
  await until(`${path} is flushed`, async () => {
    const { adminUrl } = await site.leaderOf(path);
    const answer = await call(`${adminUrl}/__svc/flush-cold${path}?max_bytes=${OBJECT_BYTES}`, 'POST');
    // Leadership moves.
    assert([200, 204, 409, 503].includes(answer.status), `${answer.status} ${answer.text}`);
    if (answer.status === 200) {
      frontier = String((JSON.parse(answer.text) as { hot_start_offset: number }).hot_start_offset);
    }
    return answer.status === 204;
  });
  await until(`${path} is cold from ${frontier} on everywhere`, async () => {
    const head = await ask(site, `HEAD ${path}`);
    return frontier === '' || head.headers.get('stream-cold-hot-start-offset') === frontier;
  });
}
