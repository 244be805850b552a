// A node's conclusions from its peers' memories of it.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ClusterIdentity } from '../../src/shard/cluster-identity.ts';
import { Directories, type OwnDirectory } from '../../src/shard/directories.ts';
import type { PeerIdentity } from '../../src/peer/codec/handshake.ts';
import { StorageFullError } from '../../src/shard/ports.ts';
import type { DirectoryRun, DirectoryStart, RememberedRun, Standing } from '../../src/peer/codec/standing.ts';

const [MINE, OTHER] = ['a'.repeat(16), 'b'.repeat(16)];
const CLUSTER = 'c'.repeat(32);

interface Rig {
  readonly directories: Directories;
  readonly identity: ClusterIdentity;
  readonly memory: Map<number, RememberedRun>;
  readonly losses: DirectoryRun[];
  /** Earlier ones, which a loss or a memory brought. */
  readonly settled: DirectoryStart[];
  readonly learned: string[];
  readonly disk: { hasLosses: boolean; isStuck: boolean; isFull: boolean };
}

function rig(own: Partial<OwnDirectory> = {}): Rig {
  const memory = new Map<number, RememberedRun>();
  const losses: DirectoryRun[] = [];
  const settled: DirectoryStart[] = [];
  const learned: string[] = [];
  const disk = { hasLosses: true, isStuck: false, isFull: false };
  const identity = new ClusterIdentity({ nodeId: 1, known: '', drawn: '', learned: (id) => learned.push(id) });
  const directories = new Directories({
    own: { directory: MINE, incarnation: 5, boot: 50, isNew: true, settled: [], ...own },
    storage: {
      peerRun: (node) => memory.get(node),
      rememberPeer: (node, run) => {
        assert(!disk.isStuck, 'it would wait for the checkpoint that hangs');
        if (disk.isFull) throw new StorageFullError();
        memory.set(node, run);
      },
    },
    identity,
    lost: (_, run, earlier) => {
      losses.push(run);
      settled.push(...earlier);
    },
    settled: (runs) => settled.push(...runs),
    lossesAreStored: () => disk.hasLosses,
    isStuck: () => disk.isStuck,
  });
  return { directories, identity, memory, losses, settled, learned, disk };
}

function peer(remembers: RememberedRun | undefined, more: Partial<Standing> = {}): PeerIdentity {
  const standing = { identity: '', directory: OTHER, incarnation: 9, settled: [], remembers, ...more };
  return { clusterId: '', groupCount: 1, node: 2, shard: 0, shardCount: 1, boot: 90, standing };
}

function old(): PeerIdentity {
  const { standing: _, ...rest } = peer(undefined);
  return rest;
}

const run = (directory: string, incarnation: number, boot = 1, settled: DirectoryStart[] = []): RememberedRun => ({
  ...{ directory, incarnation, boot },
  settled,
});

test('a directory that the peer does not know, or knows from an earlier start, is what it was', () => {
  for (const remembered of [undefined, run(MINE, 4), run(MINE, 1), run(MINE, 5, 50)]) {
    const { directories, losses } = rig();
    directories.onHello(peer(remembered));
    directories.onWelcome(peer(remembered));
    assert.deepEqual(losses, []);
  }
});

test('another directory, a later start on this one, and another start of the same number are losses, each told once', () => {
  for (const remembered of [run(OTHER, 1), run(MINE, 6), run(MINE, 5, 51)]) {
    const { directories, losses } = rig();
    directories.onHello(peer(remembered));
    directories.onWelcome(peer(remembered));
    assert.deepEqual(losses, [remembered]);
    // Nor is what was noticed in an earlier run.
    const later = rig({ incarnation: 7, settled: losses });
    later.directories.onHello(peer(remembered));
    assert.deepEqual(later.losses, []);
    // But what comes after it.
    later.directories.onHello(peer(run(remembered.directory, 8)));
    assert.equal(later.losses.length, 1);
  }
});

test('no peer is welcomed before the disk has what it told of, nor after it told the same once more', () => {
  const { directories, losses, disk } = rig();
  disk.hasLosses = false;
  for (const remembered of [run(OTHER, 1), run(OTHER, 1), undefined])
    assert.match(directories.onHello(peer(remembered)) ?? '', /its disk does not have that yet/);
  assert.equal(losses.length, 1);
  disk.hasLosses = true;
  assert.equal(directories.onHello(peer(run(OTHER, 1))), undefined);
});

test('what a peer knew in the version before is a loss for a directory that this version made', () => {
  for (const isNew of [true, false]) {
    const { directories, losses } = rig({ isNew });
    directories.onHello(peer(run('', 0, 0)));
    assert.equal(losses.length, isNew ? 1 : 0);
  }
});

test('a peer is remembered when it has acted on what was remembered of it, and not by its hello', () => {
  const { directories, memory } = rig();
  directories.onHello(peer(undefined));
  assert.equal(memory.size, 0);
  directories.onWelcome(old());
  assert.deepEqual(memory.get(2), run('', 0, 0));
  directories.onWelcome(peer(undefined));
  assert.deepEqual(memory.get(2), run(OTHER, 9, 90));
  assert.deepEqual(directories.standing(2).remembers, run(OTHER, 9, 90));
  // The way back to the version before, and a start that could not be noted, tell nothing new.
  directories.onWelcome(old());
  directories.onWelcome(peer(undefined, { directory: '', incarnation: 10 }));
  assert.deepEqual(memory.get(2), run(OTHER, 9, 90));
});

test('the link to a peer whose run cannot be stored waits, and neither the shard nor links to known runs do', () => {
  for (const trouble of ['isStuck', 'isFull'] as const) {
    const { directories, memory, disk } = rig();
    assert.equal(directories.onWelcome(peer(undefined)), undefined);
    disk[trouble] = true;
    assert.match(directories.onWelcome(peer(undefined, { incarnation: 10 })) ?? '', /cannot note which run/);
    assert.equal(directories.onWelcome(peer(undefined)), undefined);
    assert.deepEqual(memory.get(2), run(OTHER, 9, 90));
    disk[trouble] = false;
    assert.equal(directories.onWelcome(peer(undefined, { incarnation: 10 })), undefined);
    assert.deepEqual(memory.get(2), run(OTHER, 10, 90));
  }
});

test('the identity of the cluster is learned from a peer, once', () => {
  const { directories, identity, learned } = rig();
  directories.onHello(peer(undefined));
  directories.onHello(peer(undefined, { identity: CLUSTER }));
  directories.onWelcome(peer(undefined, { identity: CLUSTER }));
  assert.deepEqual([identity.known, learned], [CLUSTER, [CLUSTER]]);
  assert.equal(directories.standing(3).identity, CLUSTER);
});

test('of two identities the first one counts, until the node settles on the other', () => {
  const { directories, identity, learned } = rig();
  const another = 'd'.repeat(32);
  directories.onHello(peer(undefined, { identity: CLUSTER }));
  directories.onWelcome(peer(undefined, { identity: another }));
  assert.deepEqual([identity.known, learned], [CLUSTER, [CLUSTER]]);
  // Another shard was first.
  identity.settle(another);
  assert.equal(directories.standing(3).identity, another);
});

/** Node 1 on a new disk links to a peer that remembers the disk before, as two shards do. */
function linkAnew(peerMemory: Map<number, RememberedRun>, own: Partial<OwnDirectory>, peerNode = 2): Rig {
  const one = rig(own);
  const two = new Directories({
    own: { directory: OTHER, incarnation: 9, boot: 90, isNew: true, settled: [] },
    storage: {
      peerRun: (node) => peerMemory.get(node),
      rememberPeer: (node, known) => void peerMemory.set(node, known),
    },
    identity: one.identity,
    lost: () => assert.fail('the peer lost nothing'),
    settled: () => assert.fail('the peer lost nothing'),
    lossesAreStored: () => true,
    isStuck: () => false,
  });
  const introduce = (from: Directories, node: number, to: number, boot: number): PeerIdentity => ({
    ...{ clusterId: '', groupCount: 1, node, shard: 0, shardCount: 1, boot },
    standing: from.standing(to),
  });
  one.directories.onHello(introduce(two, peerNode, 1, 90));
  two.onWelcome(introduce(one.directories, 1, peerNode, own.boot ?? 50));
  return one;
}

test('a peer that was away while a node lost two disks does not take the second for lost', () => {
  const [first, second, third] = ['1'.repeat(16), '2'.repeat(16), '3'.repeat(16)] as const;
  const [present, away] = [new Map<number, RememberedRun>(), new Map<number, RememberedRun>()];
  for (const memory of [present, away]) linkAnew(memory, { directory: first, incarnation: 4, boot: 14 });
  assert.deepEqual(away.get(1), run(first, 4, 14));
  const onSecond = linkAnew(present, { directory: second, incarnation: 1, boot: 21 });
  assert.deepEqual(onSecond.losses, [run(first, 4, 14)]);
  const onThird = linkAnew(present, { directory: third, incarnation: 1, boot: 31 });
  assert.deepEqual(
    onThird.losses.map(({ directory }) => directory),
    [second],
  );
  assert.deepEqual(
    onThird.settled.map(({ directory }) => directory),
    [first],
  );
  // It starts again; by then the peer is back that knows the first disk alone.
  const settled = [...onThird.settled, ...onThird.losses];
  const again = linkAnew(away, { directory: third, incarnation: 2, boot: 32, settled }, 4);
  assert.deepEqual([again.losses, again.settled], [[], []]);
  assert.equal(away.get(1)?.directory, third);
  // A later run of the first disk than the one whose loss was noticed is another matter.
  away.set(1, run(first, 5));
  assert.equal(linkAnew(away, { directory: third, incarnation: 3, settled }, 4).losses.length, 1);
});

test('however many disks a node lost before, a peer that was away knows the last one that it met', () => {
  const disks = Array.from({ length: 12 }, (_, i) => i.toString(16).repeat(16));
  const present = new Map<number, RememberedRun>();
  for (const [i, directory] of disks.entries()) {
    // Each starts twice, and links again.
    for (const incarnation of [1, 2]) {
      const settled = incarnation === 1 ? [] : (present.get(1)?.settled ?? []);
      const { losses } = linkAnew(present, { directory, incarnation, boot: 10 * i + incarnation, settled });
      assert.equal(losses.length, i > 0 && incarnation === 1 ? 1 : 0);
    }
    const told = present.get(1)?.settled ?? [];
    assert.deepEqual(
      told.map((one) => one.directory),
      disks.slice(0, i),
      'each once, the latest last',
    );
  }
});

test('a memory of another disk than the last brings no loss, and what it tells lies before all others', () => {
  const [first, second, third] = ['1', '2', '3'].map((digit) => run(digit.repeat(16), 1));
  assert(first !== undefined && second !== undefined && third !== undefined);
  const { directories, losses, settled } = rig({ settled: [second, third] });
  directories.onHello(peer({ ...second, settled: [first] }));
  assert.deepEqual([losses, settled], [[], [first]]);
  assert.deepEqual(directories.standing(2).settled, [first, second, third]);
});

test('the losses that a memory tells of say nothing about runs of this very directory', () => {
  const { directories, losses, settled } = rig();
  directories.onHello(peer(run(OTHER, 3, 1, [{ directory: MINE, incarnation: 7 }])));
  assert.equal(losses.length, 1);
  assert.deepEqual(settled, []);
  directories.onHello(peer(run(MINE, 7)));
  assert.equal(losses.length, 2);
  // Nor does a peer that remembers this directory tell it anything new.
  directories.onHello(peer(run(MINE, 5, 50, [{ directory: OTHER, incarnation: 9 }])));
  assert.deepEqual([losses.length, settled.length], [2, 0]);
});
