// Throughput of the peer links of two nodes on loopback, both ends in one thread; with `--tls` by TLS. `--smoke` sends a
// few turns, for tests.

import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { tmpdir } from 'node:os';
import { Peers, type PeerHandler } from '../../src/peer/peers.ts';
import type { Message } from '../../src/raft/types.ts';
import type { PeerTlsSettings } from '../../src/peer/tls.ts';
import { PROCESS_RUNTIME } from '../../src/server/runtime.ts';
import { Authority } from '../../test/support/node-certificates.ts';
import { describeMachine, machineLine } from '../machine.ts';
import { removeFolder, temporaryFolder } from '../processes.ts';

const SMOKE = process.argv.includes('--smoke');
/** In each turn the leader sends one entry per group, and the follower answers all of them in one frame. */
const TURNS = SMOKE ? 20 : 4000;
const GROUPS = 8;
/** Ten appends of 256 bytes, with their headers. */
const DATA_BYTES = 10 * 300;
const HOST = '127.0.0.1';
/** Nothing may be dropped, so the queue holds everything. */
const QUEUE_BYTES_MAX = 512 * 1024 * 1024;
const ENVELOPE = { term: 1, index: 1, round: 1 } as const;

const append: Message = {
  type: 'append',
  from: 1,
  to: 2,
  term: 1,
  allowedBoot: 0,
  restored: false,
  prevIndex: 0,
  prevTerm: 1,
  entries: [{ term: 1, index: 1, kind: 0, data: new Uint8Array(DATA_BYTES) }],
  commit: 0,
  round: 1,
};

/** Certificates of both nodes. */
const TLS = process.argv.includes('--tls') ? makeTls() : undefined;

function makeTls(): PeerTlsSettings[] {
  const folder = temporaryFolder(tmpdir(), 'peer-links');
  const authority = new Authority(folder);
  const made = [1, 2].map((node) => authority.settings('require', authority.certify(node, { cluster: 'bench' })));
  removeFolder(folder);
  return made;
}

function makePeers(node: number, onRaft: PeerHandler['onRaft'], onLinkUp: () => void): Peers {
  const ignore = (): void => {};
  return new Peers({
    self: { clusterId: 'bench', groupCount: GROUPS, node, shard: 0, shardCount: 1, boot: node },
    secret: 'bench',
    tls: TLS?.[node - 1],
    listen: { host: HOST, port: 0 },
    peers: [],
    handler: {
      onRaft,
      onLinkUp,
      onForward: ignore,
      onLinkDown: ignore,
      onSnapshotBegin: ignore,
      onSnapshotChunk: ignore,
      onSnapshotComplete: ignore,
      onSnapshotAborted: ignore,
    },
    log: ignore,
    shed: () => '{"bits":0}',
    runtime: PROCESS_RUNTIME,
    limits: { queueBytesMax: QUEUE_BYTES_MAX },
  });
}

async function main(): Promise<void> {
  console.log(machineLine(describeMachine(process.cwd())));
  let answered = 0;
  let linked = 0;
  const events = new EventEmitter();
  const bothLinked = once(events, 'linked');
  const done = once(events, 'done');
  const onLinkUp = (): void => {
    if (++linked === 2) events.emit('linked');
  };
  const onAnswer = (): void => {
    if (++answered === TURNS * GROUPS) events.emit('done');
  };
  const leader: Peers = makePeers(1, onAnswer, onLinkUp);
  const answerTo = (group: number): void => {
    const { term, index, round } = ENVELOPE;
    follower.sendRaft(1, group, {
      type: 'append-response',
      from: 2,
      to: 1,
      term,
      round,
      boot: 1,
      lost: 0,
      refusesLead: false,
      wantsState: false,
      reject: false,
      index,
      hintIndex: 0,
      hintTerm: 0,
    });
    if (group === GROUPS - 1) follower.flush();
  };
  const follower: Peers = makePeers(2, answerTo, onLinkUp);
  const ports = [await leader.start(), await follower.start()];
  const addresses = ports.map((port, index) => ({ node: index + 1, address: { host: HOST, port } }));
  for (const peers of [leader, follower]) peers.setPeers(addresses);
  await bothLinked;

  const startMs = performance.now();
  const startCpu = process.cpuUsage();
  for (let turn = 0; turn < TURNS; turn++) {
    for (let group = 0; group < GROUPS; group++) leader.sendRaft(2, group, append);
    leader.flush();
    if (turn % 16 === 15) await new Promise(setImmediate);
  }
  await done;
  const seconds = (performance.now() - startMs) / 1000;
  const { user, system } = process.cpuUsage(startCpu);
  assert.equal(leader.counters().peer_dropped_frames, 0);
  const messages = 2 * TURNS * GROUPS;
  const megabytes = (TURNS * GROUPS * DATA_BYTES) / 1e6;
  console.log(
    `${Math.round(messages / seconds)} messages/s and ${(megabytes / seconds).toFixed(0)} MB/s of entries, ${((user + system) / messages).toFixed(2)} us of processor time a message`,
  );
  await Promise.all([leader.stop(), follower.stop()]);
}

await main();
