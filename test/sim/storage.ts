/** The store of a process: the real one on the node's simulated disk, with its delays, its errors and its crashes. */
import { LmdbTx } from '../../src/store/environment.ts';
import { type SegmentFile, LogSyncError } from '../../src/store/log-files.ts';
import type { Random } from '../support/random.ts';
import { SimCrash } from './crash.ts';
import { type CommitHooks, openEnvironment } from './environment.ts';
import type { SimSegment } from './log-disk.ts';
import { type LogHooks, SimFolder } from './log-folder.ts';
import type { SimNode } from './node.ts';
import { SimStore } from './store.ts';
import { SimSyncer } from './syncer.ts';
import type { World } from './world.ts';
import { SimWriter } from './writer.ts';

/** The errors of the system and of LMDB on a full volume. */
const NO_SPACE = { code: 'ENOSPC', message: 'no space left on device' };
/** Chance that a sync of the log fails, against crashes. */
const SYNC_ERRORS = 0.1;
/** Chance of a crash in a commit of a start that finds its log damaged. */
const ROTTEN_CRASH = 0.3;
/** Chance that a sync which may end later is waited for. */
const SYNC_AWAITED = 0.1;
/** Until a segment that is made in the background is there. */
const CREATE_MS = 5;

export interface StorageParts {
  readonly world: World;
  readonly node: SimNode;
  readonly random: Random;
  /** Runs `work` in the process later, if it lives. */
  readonly later: (delayMs: number, work: () => void) => void;
  /** The process does nothing else for so long. */
  readonly busy: (durationMs: number) => void;
  /** The process has something to look at. */
  readonly wake: () => void;
}

export class Storage {
  readonly store: SimStore;
  /** The process has started: errors of the disk may strike. */
  isOpen = false;
  readonly #parts: StorageParts;

  constructor(parts: StorageParts) {
    this.#parts = parts;
    const { node, world } = parts;
    const { chunkBytes, logKeptBytes } = world.options.disk;
    const environment = openEnvironment(node.disk, this.#usual(), chunkBytes);
    const behind = openEnvironment(node.disk, this.#behind(), chunkBytes);
    const writer = new SimWriter({
      commit: (write) => behind.commit(write),
      tx: new LmdbTx(behind.state),
      durationMs: () => 2 * this.#commitMs(node.diskRandom) + this.#slowMs,
      later: parts.later,
      busy: parts.busy,
      written: () => this.store.onCommit([], true),
    });
    this.store = new SimStore(node.disk, {
      runtime: { randomBytes: (sizeBytes) => new Uint8Array(node.diskRandom.bytes(sizeBytes)) },
      writer: () => writer,
      syncer: new SimSyncer({ ...parts, durationMs: () => this.#syncMs() }),
      disk: { environment, folder: new SimFolder(node.disk, this.#logHooks()), sizes: node.segmentSizes },
    });
    this.store.logKeptBytes = logKeptBytes;
    // A half of the key space is cleared in many steps, as that of a large group is.
    if (chunkBytes < 1000) this.store.clearRowsMax = 5;
    // Where little log is kept, next to none of it stays in memory.
    if (logKeptBytes < 1000) this.store.setLogMemory({ groupBytes: 100, shardBytes: 150 });
    this.store.spaceLeft = node.spaceLeft;
  }

  /** A start's treatment of the log draws apart from all other draws. */
  get #random(): Random {
    const { node, random } = this.#parts;
    return this.store.isLoading ? node.diskRandom : random;
  }

  get #slowMs(): number {
    const { node, world } = this.#parts;
    const extraMs = world.faulty ? (world.options.slowCheckpoints?.extraMs ?? 0) : 0;
    return extraMs > 0 ? extraMs * node.diskRandom.next() : 0;
  }

  /** Undefined: syncs are waited for. */
  #syncMs(): number | undefined {
    const { node, world } = this.#parts;
    const extraMs = world.options.slowSyncMs;
    if (extraMs === undefined || node.diskRandom.chance(SYNC_AWAITED)) return undefined;
    return extraMs * node.diskRandom.next();
  }

  #commitMs(random: Random): number {
    const { node, world } = this.#parts;
    const slow = node.slowMs > 0 ? node.slowMs * random.next() : 0;
    return world.options.disk.commitMs * (0.5 + random.next()) + slow;
  }

  #mayCrash(random: Random): void {
    const { world } = this.#parts;
    if (world.faulty && random.chance(world.options.disk.crash)) throw new SimCrash();
  }

  #needRoom(): void {
    if (this.#parts.node.full) throw Object.assign(new Error(NO_SPACE.message), { code: NO_SPACE.code });
  }

  #commitHooks(sync: CommitHooks['sync'], afterSync: () => void, beforeSync: () => void): CommitHooks {
    return { beforeSync, hiddenTag: this.#parts.world.diskFault?.hiddenTag ?? -1, sync, afterSync };
  }

  /** Commits that the shard waits for. */
  #usual(): CommitHooks {
    const { node, busy, world } = this.#parts;
    const mayCrash = (): void => this.#mayCrash(this.#random);
    return this.#commitHooks(
      (disk) => this.#sync(() => disk.sync()),
      mayCrash,
      () => {
        busy(this.#commitMs(this.#random));
        this.#needRoom();
        mayCrash();
        // A start that gives up a log or a group, and does not finish.
        if (
          (node.rot === 'record' || node.rotGroup !== undefined) &&
          world.faulty &&
          node.diskRandom.chance(ROTTEN_CRASH)
        )
          throw new SimCrash();
        for (const { group, snapshot, keepsLog } of this.store.writing) {
          if (snapshot !== undefined && keepsLog !== true) node.disk.noteSnapshot(group, snapshot.index);
        }
      },
    );
  }

  /** Those of checkpoints, and their draws apart from all others. */
  #behind(): CommitHooks {
    const mayCrash = (): void => this.#mayCrash(this.#parts.node.diskRandom);
    return this.#commitHooks(
      (disk) => this.#sync(() => disk.sync()),
      mayCrash,
      () => {
        this.#needRoom();
        mayCrash();
      },
    );
  }

  #sync(work: () => void): void {
    const { world, later } = this.#parts;
    if (world.diskFault?.sync === undefined) work();
    else world.diskFault.sync(work, later);
  }

  #logHooks(): LogHooks {
    const { node, world, busy, later } = this.#parts;
    const { diskRandom } = node;
    return {
      beforeCreate: () => this.#needRoom(),
      beforeWrite: () => {
        busy(this.#commitMs(this.#random));
        this.#mayCrash(this.#random);
      },
      afterWrite: (segment) => {
        this.#note(segment);
        this.#mayCrash(diskRandom);
      },
      beforeSync: () => {
        const mayFail = this.isOpen && world.faulty && diskRandom.chance(SYNC_ERRORS * world.options.disk.crash);
        if (mayFail) throw new LogSyncError('input/output error');
      },
      sync: (work) => this.#sync(work),
      afterSync: () => {
        if (this.isOpen) this.#mayCrash(this.#random);
      },
      later: (make, done) => {
        let file: SegmentFile | undefined;
        const attempt = (): void => {
          if (!node.full) file = make();
        };
        // Its name may be on disk long before the process hears of it, or when it dies.
        const isEarly = diskRandom.chance(0.5);
        if (isEarly) attempt();
        later(CREATE_MS * diskRandom.next(), () => {
          if (!isEarly) attempt();
          done(file);
        });
      },
    };
  }

  /** For the checker of invariant 1: what the record makes durable. */
  #note(segment: SimSegment): void {
    const { disk } = this.#parts.node;
    const { writing } = this.store;
    segment.whenSynced(() => {
      for (const { group, entries } of writing) {
        for (const { index, term } of entries) disk.noteEntry(group, index, term);
      }
    });
  }
}
