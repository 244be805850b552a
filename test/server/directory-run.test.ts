// Starts that die at any point never look like an older copy; what really is one, in any mixture, is refused.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { NodeLog } from '../../src/logging/logger.ts';
import { type NodeDirectory, openDataDir } from '../../src/server/data-dir.ts';
import { type OpenedShards, beginRun, whyNotOneDirectory } from '../../src/server/directory-run.ts';
import type { ShardRun } from '../../src/store/rows.ts';
import { removeFolder, temporaryFolder } from '../support/server.ts';

const WANTED = { nodeId: 1, groupCount: 4, shardCount: 2, single: true };
const LOG = NodeLog.open(undefined).logger('main');

/** A shard's folder: its row, and how often it was used. */
interface Folder {
  readonly run: ShardRun | undefined;
  readonly used: number;
}

/** How a start ends. */
type End =
  /** It serves until it is stopped. */
  | 'serves'
  /** It dies before anything is written. */
  | 'opened'
  /** It dies when these shards have noted it. */
  | readonly number[];

const ENDS: readonly End[] = ['serves', 'opened', [], [0], [1], [0, 1]];

class Crash extends Error {}

class World {
  readonly path: string;
  folders: readonly Folder[] = [0, 1].map(() => ({ run: undefined, used: 0 }));

  constructor(t: TestContext) {
    this.path = temporaryFolder('run');
    t.after(() => removeFolder(this.path));
    openDataDir(this.path, WANTED);
    this.#makeFolders();
  }

  /** As shards do when they open; a directory that never served begins again without them. */
  #makeFolders(): void {
    for (const shard of [0, 1]) {
      mkdirSync(join(this.path, `shard-${shard}`), { recursive: true });
      writeFileSync(join(this.path, `shard-${shard}`, 'data.mdb'), 'not looked at here');
    }
  }

  get file(): string {
    return readFileSync(join(this.path, 'millrace.json'), 'utf8');
  }

  set file(text: string) {
    writeFileSync(join(this.path, 'millrace.json'), text);
  }

  /** As the next start finds it. */
  get directory(): NodeDirectory {
    return openDataDir(this.path, WANTED);
  }

  async start(end: End): Promise<void> {
    const shards: OpenedShards = {
      opened: async () => {
        this.#makeFolders();
        if (end === 'opened') throw new Crash();
        return this.folders.map(({ run }) => run);
      },
      note: async (directory, incarnation) => {
        const noted = typeof end === 'string' ? [0, 1] : end;
        this.folders = this.folders.map((folder, shard) =>
          noted.includes(shard) ? { ...folder, run: { shard, incarnation, directory } } : folder,
        );
        if (end !== 'serves') throw new Crash();
        return true;
      },
    };
    try {
      await beginRun(this.path, this.directory, { shards, single: true, log: LOG });
    } catch (error) {
      if (error instanceof Crash) return;
      throw error;
    }
    this.folders = this.folders.map(({ run, used }) => ({ run, used: used + 1 }));
  }
}

/** A copy of one moment between two starts. */
interface Copy {
  readonly directory: NodeDirectory;
  readonly folders: readonly Folder[];
  readonly used: number;
}

/** Every mixture of copies: what is accepted was used together. */
function mix(copies: readonly Copy[]): number {
  let refused = 0;
  for (const { directory, used } of copies)
    for (const first of copies)
      for (const second of copies) {
        const folders = [first.folders[0], second.folders[1]] as const;
        const why = whyNotOneDirectory(
          directory,
          folders.map((folder) => folder?.run),
          true,
        );
        if (why !== undefined) refused++;
        else
          assert.deepEqual(
            folders.map((folder) => folder?.used),
            [used, used],
          );
      }
  return refused;
}

test('after starts that died at any point the next one is taken, and no mixture of copies is', async (t) => {
  const world = new World(t);
  let refused = 0;
  const visit = async (copies: readonly Copy[], depth: number): Promise<void> => {
    const copy = { directory: world.directory, folders: world.folders, used: world.folders[0]?.used ?? 0 };
    const all = [...copies, copy];
    refused += mix(all);
    if (depth === 0) return;
    const [file, { folders }] = [world.file, copy];
    for (const end of ENDS) {
      world.file = file;
      world.folders = folders;
      await world.start(end);
      await visit(all, depth - 1);
    }
  };
  await world.start('serves');
  await visit([], 3);
  assert(refused > 1000, `only ${refused} mixtures were refused`);
});

test('a directory of a version before is adopted once, also after that version was here again', async (t) => {
  const world = new World(t);
  await world.start('serves');
  await world.start('serves');
  const early = world.folders;
  await world.start('serves');
  assert.equal(world.directory.shardRun, 4);
  // The version before keeps what it knows of, and counts on.
  const { shardRun: _, ...known } = JSON.parse(world.file) as Record<string, unknown>;
  world.file = JSON.stringify({ ...known, incarnation: 5 });
  assert.equal(world.directory.shardRun, undefined);
  await world.start('serves');
  assert.deepEqual([world.directory.shardRun, world.folders.map(({ run }) => run?.incarnation)], [6, [6, 6]]);
  world.folders = [world.folders[0] as Folder, early[1] as Folder];
  await assert.rejects(world.start('serves'), /shard-1 was last used in start 3, .* every shard noted start 6/);
});

test('a start that could not be noted for lack of room is no reason to refuse the next one', async (t) => {
  const world = new World(t);
  await world.start('serves');
  for (const noted of [[], [0], [1]]) {
    const shards: OpenedShards = {
      opened: async () => world.folders.map(({ run }) => run),
      note: async (directory, incarnation) => {
        world.folders = world.folders.map((folder, shard) =>
          noted.includes(shard) ? { ...folder, run: { shard, incarnation, directory } } : folder,
        );
        return false;
      },
    };
    await beginRun(world.path, world.directory, { shards, single: true, log: LOG });
    assert.equal(world.directory.shardRun, 2);
  }
  await world.start('serves');
  assert.equal(world.directory.shardRun, 6);
});

test('the refusal names both sides and what to do', () => {
  const directory = { clusterId: '', directoryId: 'a'.repeat(16), incarnation: 8, shardRun: 7, migrated: false };
  const rest = { single: true, settled: [], restoredFrom: [] };
  const why = (run: ShardRun | undefined, single = true): string =>
    whyNotOneDirectory(
      { ...directory, ...rest },
      [{ shard: 0, incarnation: 7, directory: directory.directoryId }, run],
      single,
    ) ?? 'taken';
  const run = { shard: 1, incarnation: 7, directory: directory.directoryId };
  assert.equal(why(run), 'taken');
  assert.equal(
    why({ ...run, incarnation: 6 }),
    'shard-1 was last used in start 6, but millrace.json says that every shard noted start 7, so shard-1 is an older copy; put back the shard-1 that belongs to the rest, or bring back the whole directory from one copy, or restore a backup into an empty one',
  );
  assert.match(why({ ...run, incarnation: 6 }, false), /or start on an empty one and run allow-rejoin$/);
  assert.match(
    why({ ...run, incarnation: 8 }),
    /last used in start 8, but millrace\.json has counted 7, so millrace\.json is an older copy/,
  );
  assert.match(why({ ...run, shard: 0 }), /^shard-1 holds shard 0 of this directory; put back the shard-1 that/);
  assert.match(
    why({ ...run, directory: 'b'.repeat(16) }),
    /^shard-1 is of directory b{16}, but millrace\.json of directory a{16};/,
  );
  assert.match(
    why(undefined),
    /^shard-1 does not say when it was last used, but millrace\.json says that every shard noted start 7/,
  );
});
