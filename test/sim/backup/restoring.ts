/**
 * An operator restores: takes a document of one group and imports it into an empty one, through any node, repeatedly
 * until it is there; impatiently, so that sometimes two uploads run at once. restored.ts judges the result; then
 * clients continue with the restored streams (inherit.ts).
 */
import type { ErrorCode } from '../../../src/base/errors.ts';
import { TAG, prefixEnd, taggedKey } from '../../../src/stream/core/keys.ts';
import { type Random, createRandom } from '../../support/random.ts';
import type { Clients } from '../clients.ts';
import type { Reference } from '../reference.ts';
import type { World } from '../world.ts';
import { type Answer, Attempt } from './attempt.ts';
import type { Exporting, Taken } from './exporting.ts';
import { Heirs } from './inherit.ts';
import { ClientProbes } from './client-probes.ts';
import { ImportChaos } from './import-chaos.ts';
import type { RestoreOptions } from './options.ts';
import { Restored } from './restored.ts';

/** Refusals that end by themselves; the attempt is over, another one may do better. */
const LATER: ReadonlySet<ErrorCode> = new Set([
  'NO_LEADER',
  'OUTCOME_UNKNOWN',
  'DISK_FULL',
  'STOPPING',
  'SHARD_BUSY',
  'IMPORT_RUNNING',
  'UNCOMMITTED_FULL',
  'BACKPRESSURE',
]);
const LOOK_MS = 300;
/** More uploads than this do not run at once. */
const RUNNING_MAX = 2;
/** When nothing goes wrong any more: longer than the silence after which an attempt may be replaced. */
const PATIENCE_MS = 25_000;
const NOTHING = new Uint8Array(0);

export class Restoring {
  readonly counts = {
    restores: 0,
    spoiled: 0,
    importAttempts: 0,
    importsLeft: 0,
    importsRefused: 0,
    importsAltered: 0,
    importsLost: 0,
  };
  readonly #world: World;
  readonly #exporting: Exporting;
  readonly #options: RestoreOptions;
  readonly #random: Random;
  readonly #chaos: ImportChaos;
  readonly #restored: Restored;
  readonly #probes: ClientProbes;
  readonly #heirs: Heirs;
  readonly #running = new Set<Attempt>();
  #tokens = 0;
  #taking = false;
  #notBeforeMs = 0;
  /** The last attempt is given up then. */
  #patientUntilMs = 0;
  /** Nothing more is to be done here. */
  over = false;

  constructor(world: World, exporting: Exporting, clients: Clients, options: RestoreOptions) {
    this.#world = world;
    this.#exporting = exporting;
    this.#options = options;
    this.#random = createRandom(world.options.seed * 67 + 29);
    this.#chaos = new ImportChaos(world, options.late);
    this.#restored = new Restored(world, options.target);
    this.#probes = new ClientProbes(world, clients, options);
    this.#heirs = new Heirs(world, clients, options.target);
  }

  get allCounts(): Readonly<Record<string, number>> {
    return { ...this.counts, ...this.#restored.counts, ...this.#chaos.counts };
  }

  start(): void {
    this.#world.queue.after(this.#options.atMs, () => this.#look());
  }

  #look(): void {
    if (this.over) return;
    this.#act();
    this.#world.queue.after(LOOK_MS, () => this.#look());
  }

  #act(): void {
    const { nodes, queue } = this.#world;
    const random = this.#random;
    for (const attempt of this.#running) if (attempt.process.dead) this.#running.delete(attempt);
    if (queue.nowMs < this.#notBeforeMs) return;
    const { taken } = this.#restored;
    const { process } = random.pick(nodes);
    if (process === undefined) return;
    if (taken === undefined) this.#take();
    else if (this.#running.size === 0 || (queue.nowMs > this.#patientUntilMs && this.#running.size < RUNNING_MAX)) {
      this.counts.importAttempts++;
      this.#world.trace(`import through n${process.id}`);
      this.#patientUntilMs = queue.nowMs + (this.#world.faulty ? random.int(2000, 20_000) : PATIENCE_MS);
      const attempt: Attempt = new Attempt({
        world: this.#world,
        random,
        options: this.#options,
        process,
        taken,
        chaos: this.#chaos,
        newToken: () => (++this.#tokens).toString(16).padStart(16, '0'),
        onAnswer: (answer) => this.#answered(attempt, answer, taken),
      });
      this.#running.add(attempt);
    }
  }

  #take(): void {
    if (this.#taking) return;
    this.#taking = true;
    const { cold } = this.#world;
    this.#exporting.take(this.#random.pick(this.#world.nodes), this.#options.source, (taken) => {
      this.#taking = false;
      // A group that clients do not use yet is of no use here.
      if (taken === undefined || taken.contents.streams === 0) return;
      this.#restored.taken = taken;
      cold?.keep(taken.stateDigest);
      this.#probes.start(taken);
    });
  }

  #answered(attempt: Attempt, answer: Answer, taken: Taken): void {
    this.#running.delete(attempt);
    this.#world.trace(`import through n${attempt.process.id}: ${JSON.stringify(answer)}`);
    this.#notBeforeMs = this.#world.queue.nowMs + this.#random.int(50, this.#random.pick([1500, 9000]));
    switch (answer.kind) {
      case 'left':
        this.counts.importsLeft++;
        return undefined;
      case 'sentence':
        if (!attempt.isAltered || answer.status !== 400) this.#fail(`${answer.status} ${answer.text}`);
        this.counts.importsAltered++;
        return undefined;
      case 'refused':
        return this.#refused(answer.code);
      case 'json':
        return this.#judged(attempt, answer, taken);
    }
  }

  #fail(what: string): never {
    throw this.#world.failure(`import: it is answered with ${what}`);
  }

  #refused(code: ErrorCode): void {
    this.counts.importsRefused++;
    if (code === 'IMPORT_LOST') {
      this.counts.importsLost++;
      if (this.counts.importAttempts === 1) this.#fail(`${code}, and there was no other one`);
    } else if (!LATER.has(code)) this.#fail(code);
  }

  #judged(attempt: Attempt, { status, value }: Answer & { kind: 'json' }, taken: Taken): void {
    const { contents } = taken;
    if (this.over) return undefined;
    if (status === 409 && value['imported_blake3'] === null) {
      const isThere = rowsOfTag(this.#world.checks.references[this.#options.target] as Reference, TAG.bucket) > 0;
      if (!this.#options.spoiled || !isThere) this.#fail('409, and the group is empty');
      this.counts.spoiled++;
      this.over = true;
      return this.#probes.stop();
    }
    const isDone = status === 409 && value['imported_blake3'] === contents.digest;
    const isRight =
      status === 200 &&
      value['buckets'] === contents.buckets &&
      value['streams'] === contents.streams &&
      value['group_commit_index'] === 1;
    if (!isDone && !isRight) this.#fail(`${status} ${JSON.stringify(value)}`);
    if (attempt.isAltered && isRight) this.#fail('200, and it was altered');
    if (this.#restored.counts.importsDone === 0) this.#fail(`${status}, and it is not done`);
    this.counts.restores++;
    this.over = true;
    this.#probes.stop();
    return this.#heirs.enter(taken, attempt.process.id);
  }

  /** Clients use the restored streams. */
  get settled(): boolean {
    return this.over && this.#heirs.settled;
  }
}

function rowsOfTag({ state }: Reference, tag: number): number {
  let count = 0;
  const start = taggedKey(state.prefix, tag, NOTHING);
  state.overlay.range(start, prefixEnd(start), false, () => ++count > 0);
  return count;
}
