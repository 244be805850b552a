/**
 * Exports of groups from any node, also from one that is behind: through the product's own code on the main thread
 * (backup/export/exporter.ts) and in the shard, validated by its validator, and compared with what the node had on its
 * disk when it took them; that disk is compared with the reference at every checkpoint (checks.ts).
 */
import { Buffer } from 'node:buffer';
import { type Contents, DocumentReader } from '../../../src/backup/format/document.ts';
import type { ErrorCode } from '../../../src/base/errors.ts';
import type { ExportSink } from '../../../src/backup/ports.ts';
import { exportGroup } from '../../../src/backup/export/exporter.ts';
import { type Random, createRandom } from '../../support/random.ts';
import { latin1 } from '../../support/sorted-rows.ts';
import type { Until } from '../liveness.ts';
import type { SimNode } from '../node.ts';
import type { World } from '../world.ts';
import { gatewayOf, guarded } from './gateway.ts';
import { readersOf, timersOf } from './readers.ts';
import { type StateDigest, gaugesDiffer, rowsDiffer } from './state-digest.ts';

/** A document, and what it was taken from. */
export interface Taken {
  readonly group: number;
  readonly bytes: Uint8Array;
  readonly contents: Contents;
  readonly stateDigest: StateDigest;
}

/** The downloading client gives up after this long. */
const PATIENCE_MS = 15_000;
/** Refusals of a group that is being imported, of too many exports, or of a disk that is full or hangs. */
const LATER: ReadonlySet<ErrorCode> = new Set([
  'GROUP_IMPORTING',
  'EXPORTS_FULL',
  'DISK_FULL',
  'SHARD_BUSY',
  'STOPPING',
]);

class Download implements ExportSink {
  isOver = false;
  onOver: (() => void) | undefined;
  digest: string | undefined;
  commitIndex = -1;
  stateDigest: StateDigest | undefined;
  readonly pieces: Uint8Array[] = [];
  readonly #world: World;
  readonly #paceMs: number;
  readonly #done: (code: ErrorCode) => void;

  constructor(world: World, paceMs: number, done: (code: ErrorCode) => void) {
    this.#world = world;
    this.#paceMs = paceMs;
    this.#done = done;
  }

  begin(commitIndex: number, digest: string | undefined): void {
    this.commitIndex = commitIndex;
    this.digest = digest;
  }

  write(piece: Uint8Array, next: () => void): void {
    this.pieces.push(piece.slice());
    this.#world.queue.after(this.#paceMs, () => guarded(this.#world, next));
  }

  end(): void {
    this.over('OK');
  }

  fail(code: ErrorCode): void {
    this.over(code);
  }

  over(code: ErrorCode): void {
    if (this.isOver) return;
    this.isOver = true;
    this.onOver?.();
    this.#done(code);
  }
}

export class Exporting {
  readonly counts = { exports: 0, exportsCompared: 0, exportsRefused: 0, exportsLost: 0 };
  readonly #world: World;
  readonly #random: Random;

  constructor(world: World) {
    this.#world = world;
    this.#random = createRandom(world.options.seed * 61 + 17);
  }

  start(): void {
    this.#later();
  }

  #later(): void {
    const { exportsMs } = this.#world.options.backup;
    if (exportsMs === Infinity) return;
    this.#world.queue.after(-exportsMs * Math.log(1 - this.#random.next()), () => {
      if (!this.#world.faulty) return;
      const node = this.#random.pick(this.#world.nodes);
      this.take(node, this.#random.pick(this.#world.options.groups), () => undefined);
      this.#later();
    });
  }

  /** Nodes export the same bytes at the same index. */
  finish(until: Until): void {
    const { nodes, options } = this.#world;
    if (options.backup.exportsMs === Infinity) return;
    let left = 0;
    const digests = new Map<string, string>();
    const compare = (taken: Taken | undefined): void => {
      left--;
      if (taken === undefined) return;
      const { group, contents } = taken;
      const at = `g${group} at ${contents.head.commitIndex}`;
      const known = digests.get(at);
      digests.set(at, contents.digest);
      if (known === undefined) return;
      this.counts.exportsCompared++;
      if (known !== contents.digest && !this.#world.blind)
        throw this.#world.failure(`export ${at}: two nodes make two documents of it`);
    };
    for (const group of options.groups) {
      for (const node of nodes) {
        left++;
        this.take(node, group, compare);
      }
    }
    until(
      () => left === 0,
      () => `${left} exports do not end`,
    );
  }

  /** `done` gets the document, or undefined when there is none. */
  take(node: SimNode, group: number, done: (taken: Taken | undefined) => void): void {
    const { process } = node;
    if (process === undefined) return done(undefined);
    const world = this.#world;
    const random = this.#random;
    const download = new Download(world, random.pick([0, 1, 100]), (code) => {
      if (code !== 'OK') {
        this.counts[code === 'OUTCOME_UNKNOWN' ? 'exportsLost' : 'exportsRefused']++;
        if (code !== 'OUTCOME_UNKNOWN' && !LATER.has(code))
          throw world.failure(`backup: an export of g${group} is answered with ${code}`);
        return done(undefined);
      }
      this.counts.exports++;
      return done(this.#judge(group, download));
    });
    const gateway = gatewayOf({
      world,
      process,
      groupCount: world.options.groups.length,
      group,
    });
    const readers = readersOf({
      world,
      process,
      lateMs: random.pick([0.1, 1, 300]),
      onOpen: (stateDigest) => (download.stateDigest = stateDigest),
    });
    const endedEarly = (_group: number, { reason }: { readonly reason: string }): never => {
      throw world.failure(`backup: an export ended early: ${reason}`);
    };
    exportGroup(
      {
        ...{ gateway, readers, runtime: timersOf(world, process), endedEarly },
        ...{ delayMs: () => 0, begun: () => undefined, over: () => undefined },
      },
      group,
      download,
    );
    // Some readers leave in the middle.
    const patienceMs = random.chance(0.1) ? random.int(1, 50) : PATIENCE_MS;
    world.queue.after(patienceMs, () => guarded(world, () => download.over('OUTCOME_UNKNOWN')));
    return undefined;
  }

  #judge(group: number, { pieces, stateDigest, digest, commitIndex }: Download): Taken | undefined {
    const { options, blind } = this.#world;
    const fail = (what: string): never => {
      throw this.#world.failure(`export g${group} at ${commitIndex}: ${what}`);
    };
    if (stateDigest === undefined) return fail('it came from nowhere');
    const rows = new Map<string, string>();
    const reader = new DocumentReader(
      () => undefined,
      (key, value) => rows.set(latin1(key), latin1(value)),
    );
    const bytes = new Uint8Array(Buffer.concat(pieces));
    let contents: Contents;
    try {
      const size = this.#random.pick([bytes.length, 3000]);
      for (let at = 0; at < bytes.length; at += size) reader.push(bytes.slice(at, at + size));
      contents = reader.end();
    } catch (error) {
      return fail(String(error));
    }
    const taken = { group, bytes, contents, stateDigest };
    if (blind) return taken;
    const { head } = contents;
    if (head.group !== group || head.groupCount !== options.groups.length) fail('it names another group');
    if (head.commitIndex !== commitIndex || commitIndex !== stateDigest.appliedCommands)
      fail(`it names ${head.commitIndex}, the state is of ${stateDigest.appliedCommands}`);
    if (head.origin !== stateDigest.origin) fail(`its origin is ${head.origin}, not ${stateDigest.origin}`);
    if (digest !== undefined && digest !== contents.digest) fail(`its digest is ${contents.digest}, not ${digest}`);
    const difference = rowsDiffer(stateDigest.rows, rows) ?? gaugesDiffer(stateDigest.gauges, contents);
    if (difference !== undefined) fail(difference);
    return taken;
  }
}
