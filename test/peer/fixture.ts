// Peers on 127.0.0.1 for tests: what they receive is collected, and tests wait for it instead of sleeping.
import type { TestContext } from 'node:test';
import { PROCESS_RUNTIME } from '../../src/server/runtime.ts';
import { Peers } from '../../src/peer/peers.ts';
import type { PeerHandler, PeersOptions } from '../../src/peer/peers.ts';
import type { ForwardOrigin, IncomingSnapshot } from '../../src/shard/ports.ts';
import type { Message, GroupSnapshotRequest } from '../../src/raft/types.ts';
import { PROTOCOL_VERSION, type PeerIdentity } from '../../src/peer/codec/handshake.ts';
import type { Standing } from '../../src/peer/codec/standing.ts';
import { freePort } from '../support/ports.ts';
import { PATIENCE_MS } from '../support/until.ts';

export const SECRET = 'correct horse';
export const GROUP_COUNT = 16;
export const HOST = '127.0.0.1';

/** Calls to `note` let waiting conditions be looked at again. */
export class Waiter {
  readonly #waiting = new Set<() => void>();

  note(): void {
    for (const look of this.#waiting) look();
  }

  until(what: string, condition: () => boolean): Promise<void> {
    return new Promise((resolve, reject) => {
      // Counters change without an event.
      const poll = setInterval(() => look(), 10);
      const timer = setTimeout(() => end(() => reject(new Error(`timed out: ${what}`))), PATIENCE_MS);
      const end = (settle: () => void): void => {
        clearInterval(poll);
        clearTimeout(timer);
        this.#waiting.delete(look);
        settle();
      };
      const look = (): void => {
        if (condition()) end(resolve);
      };
      this.#waiting.add(look);
      look();
    });
  }
}

export interface LogLine {
  readonly level: string;
  readonly message: string;
  readonly fields: Record<string, unknown>;
}

export class Recorder implements PeerHandler {
  readonly waiter: Waiter;
  readonly messages: { group: number; message: Message }[] = [];
  readonly forwards: { origin: ForwardOrigin; group: number; bytes: Uint8Array }[] = [];
  readonly snapshots: string[] = [];
  readonly links: string[] = [];
  /** Sorted by text. */
  readonly introduced: (readonly [word: string, standing: Standing | undefined])[] = [];
  /** Why peers are not welcomed, and links that are welcome wait. */
  notYet: { hello?: string; welcome?: string } = {};
  snapshotBytes = 0;
  onChunk: (snapshot: IncomingSnapshot, bytes: Uint8Array) => void = () => {};
  onForwarded: (origin: ForwardOrigin, group: number, bytes: Uint8Array) => void = () => {};
  onComplete: (snapshot: IncomingSnapshot) => void = () => {};

  constructor(waiter: Waiter) {
    this.waiter = waiter;
  }

  onRaft(group: number, message: Message): void {
    this.messages.push({ group, message });
    this.waiter.note();
  }

  onForward(origin: ForwardOrigin, group: number, bytes: Uint8Array): void {
    this.forwards.push({ origin, group, bytes: bytes.slice() });
    this.onForwarded(origin, group, bytes);
    this.waiter.note();
  }

  onHello({ standing }: PeerIdentity): string | undefined {
    this.introduced.push(['hello', standing]);
    this.introduced.sort(([a], [b]) => (a < b ? -1 : 1));
    return this.notYet.hello;
  }

  onWelcome({ standing }: PeerIdentity): string | undefined {
    this.introduced.push(['welcome', standing]);
    this.introduced.sort(([a], [b]) => (a < b ? -1 : 1));
    return this.notYet.welcome;
  }

  onLinkUp(node: number, shard: number): void {
    this.links.push(`up ${node}/${shard}`);
    this.waiter.note();
  }

  onLinkDown(node: number, shard: number): void {
    this.links.push(`down ${node}/${shard}`);
    this.waiter.note();
  }

  onSnapshotBegin(snapshot: IncomingSnapshot, message: GroupSnapshotRequest, metadata: Uint8Array): void {
    const text = new TextDecoder().decode(metadata);
    this.snapshots.push(`begin ${snapshot.node}/${snapshot.group} at ${message.snapshot.index}: ${text}`);
    this.waiter.note();
  }

  onSnapshotChunk(snapshot: IncomingSnapshot, bytes: Uint8Array): void {
    this.snapshotBytes += bytes.length;
    this.onChunk(snapshot, bytes);
    this.waiter.note();
  }

  onSnapshotComplete(snapshot: IncomingSnapshot): void {
    this.snapshots.push(`complete ${snapshot.node}/${snapshot.group}`);
    this.onComplete(snapshot);
    this.waiter.note();
  }

  onSnapshotAborted(snapshot: IncomingSnapshot): void {
    this.snapshots.push(`aborted ${snapshot.node}/${snapshot.group}`);
    this.waiter.note();
  }
}

export interface TestPeer {
  readonly peers: Peers;
  readonly heard: Recorder;
  readonly log: LogLine[];
  /** Lines about trouble. */
  warnings(): LogLine[];
}

export type Overrides = Partial<Omit<PeersOptions, 'self' | 'handler' | 'log'>> & {
  readonly self?: Partial<PeersOptions['self']>;
};

let boots = 0;

/** Not started; stopped when the test ends. */
export function makePeer(t: TestContext, waiter: Waiter, node: number, overrides: Overrides = {}): TestPeer {
  const heard = new Recorder(waiter);
  const log: LogLine[] = [];
  const { self, ...rest } = overrides;
  const introduction = {
    clusterId: 'test',
    groupCount: GROUP_COUNT,
    node,
    shard: 0,
    shardCount: 1,
    boot: ++boots,
    ...self,
  };
  const peers = new Peers({
    self: introduction,
    secret: SECRET,
    listen: { host: HOST, port: 0 },
    peers: [],
    handler: heard,
    runtime: PROCESS_RUNTIME,
    shed: () => '{"bits":0}',
    log: (level, message, fields = {}) => {
      log.push({ level, message, fields });
      waiter.note();
    },
    ...rest,
  });
  t.after(() => peers.stop());
  return { peers, heard, log, warnings: () => log.filter(({ level }) => level === 'warn') };
}

/** Started, and all linked with each other. */
export async function makeCluster(
  t: TestContext,
  waiter: Waiter,
  nodes: number,
  overrides: Overrides = {},
): Promise<TestPeer[]> {
  const cluster = Array.from({ length: nodes }, (_, i) => makePeer(t, waiter, i + 1, overrides));
  const addresses = [];
  for (const [i, { peers }] of cluster.entries()) {
    addresses.push({ node: i + 1, address: { host: HOST, port: await peers.start() } });
  }
  for (const { peers } of cluster) peers.setPeers(addresses);
  await waiter.until('all links', () => cluster.every(({ peers }) => peers.counters().peer_links_up === nodes - 1));
  return cluster;
}

/** Nodes 1 and 2, linked both ways; the second speaks no newer version. */
export async function linkedPair(
  t: TestContext,
  waiter: Waiter,
  newest = PROTOCOL_VERSION,
): Promise<[TestPeer, TestPeer]> {
  const one = makePeer(t, waiter, 1);
  const address = { host: HOST, port: await freePort() };
  const peers = [
    { node: 1, address: { host: HOST, port: await one.peers.start() } },
    { node: 2, address },
  ];
  one.peers.setPeers(peers);
  const two = makePeer(t, waiter, 2, { listen: address, peers, newest });
  await two.peers.start();
  await waiter.until('both ways', () => two.peers.connected(1, 0) && one.peers.connected(2, 0));
  return [one, two];
}

export function reasons(lines: readonly LogLine[]): string {
  return lines.map(({ message, fields }) => `${message}: ${String(fields['reason'])}`).join('\n');
}

export interface Pair {
  readonly one: TestPeer;
  readonly two: TestPeer;
  readonly waiter: Waiter;
  readonly port: number;
}

/** Node 2 dials node 1, which dials no node. */
export async function pair(t: TestContext, first: Overrides, second: Overrides): Promise<Pair> {
  const waiter = new Waiter();
  const limits = { logWindowMs: 0, handshakeTimeoutMs: 2000 };
  const one = makePeer(t, waiter, 1, { limits, ...first });
  const two = makePeer(t, waiter, 2, { limits, ...second });
  const port = await one.peers.start();
  await two.peers.start();
  two.peers.setPeers([{ node: 1, address: { host: HOST, port } }]);
  return { one, two, waiter, port };
}
