/** A node: what outlives its processes. */
import { StorageFullError } from '../../src/shard/ports.ts';
import { OWN_TAG, prefixKey, systemKey } from '../../src/store/rows.ts';
import type { SegmentSizes } from '../../src/store/segments.ts';
import { TAG } from '../../src/stream/core/keys.ts';
import { type Random, createRandom } from '../support/random.ts';
import { latin1 } from '../support/sorted-rows.ts';
import { SimCrash } from './crash.ts';
import { SimDisk } from './disk.ts';
import { SimProcess } from './process.ts';
import { shedRequest } from './requests.ts';
import type { World } from './world.ts';

const RETRY_MS = 300;
const KIB = 1024;
/** Chance that a page with rows of the group is lost, and not a bit of one row. */
const TORN = 0.3;

export class SimNode {
  readonly id: number;
  readonly random: Random;
  disk: SimDisk;
  /** Draws the disk's treatment of the log, apart from all other draws. */
  readonly diskRandom: Random;
  /** Small, so that segments fill, are used again and are cleaned all the time. */
  readonly segmentSizes: SegmentSizes;
  process: SimProcess | undefined;
  /** How far the wall clock is off. */
  wallOffsetMs: number;
  /** Rate of the clock that never steps, against simulated time. */
  clockRate: number;
  /** Commits are refused. */
  full = false;
  /** The volume is above its reserve, as far as the process has noticed. */
  spaceLeft = true;
  /** Commits take up to so much longer. */
  slowMs = 0;
  /** The next process finds an empty disk under a used node id. */
  lostLog = false;
  /** The damage while no process ran: a record that is needed, or something else. */
  rot: 'none' | 'record' | 'unused' = 'none';
  /** A row about this group was damaged meanwhile, without which it cannot be opened. */
  rotGroup: { readonly group: number; readonly isVote: boolean } | undefined;
  /** The log was damaged at least once, which the start finds. */
  wasRotten = false;
  /** Disks that it has had. */
  disks = 1;
  /** Set by the operator: must not lead. */
  draining = false;
  boots = 0;
  /** Apart from all other draws. */
  readonly #tellings: Random;
  readonly #world: World;

  constructor(world: World, id: number) {
    this.#world = world;
    this.id = id;
    this.diskRandom = createRandom((world.options.seed ^ 0x5e6_d15c) * 31 + id);
    this.segmentSizes = { bytesMin: 16 * KIB, bytesMax: this.diskRandom.pick([16, 32, 64]) * KIB };
    this.disk = new SimDisk(this.diskRandom);
    this.#tellings = createRandom((world.options.seed ^ 0x1d_e471) * 31 + id);
    this.random = createRandom(world.options.seed * 31 + id);
    this.wallOffsetMs = this.random.int(-200, 200);
    this.lostLog = world.options.lostOutside && !world.options.voters.includes(id);
    this.clockRate = 0.97 + 0.06 * this.random.next();
  }

  start(): void {
    if (this.process !== undefined) return;
    this.boots++;
    const boot = 1000 * this.id + this.boots;
    try {
      this.process = new SimProcess(this.#world, this, boot, this.lostLog);
    } catch (error) {
      if (error instanceof StorageFullError || error instanceof SimCrash) {
        // The supervisor of the process starts it again.
        this.disk.crash();
        this.#world.queue.after(RETRY_MS, () => this.start());
        return;
      }
      throw this.#world.failure(`n${this.id} does not start: ${String(error)}`, error);
    }
    this.#compareDamage(this.process);
    this.process.start();
    if (this.draining) this.drain(true);
    this.#world.started(this);
  }

  /** A damaged log is always found, and a sound one never counts as damaged. */
  #compareDamage({ store }: SimProcess): void {
    const { lost } = store.found;
    // The log may have a newer vote.
    const isFoundGroup = this.rotGroup === undefined || this.rotGroup.isVote || store.lost(this.rotGroup.group) !== 0;
    if (!isFoundGroup && !this.#world.blind)
      throw this.#world.failure(`group-damage n${this.id}: g${this.rotGroup?.group} is not found`);
    this.rotGroup = undefined;
    if (lost !== undefined) this.#world.trace(`n${this.id} has lost its log: ${lost.why}`);
    const isRotten = this.rot === 'record';
    this.rot = 'none';
    if (this.#world.blind) return;
    if (lost !== undefined && !isRotten) throw this.#world.failure(`log-damage n${this.id}: ${lost.why}`);
    // It may have been found by a start that did not get far.
    const isFound = this.#world.options.groups.every((group) => store.lost(group) !== 0);
    if (isRotten && !isFound) throw this.#world.failure(`log-damage n${this.id} is not found`);
  }

  /** Sets or lifts the mark, as the operator does; it survives restarts. */
  drain(draining: boolean): void {
    this.draining = draining;
    const { process } = this;
    if (process === undefined) return;
    if (!draining) process.isMarked = false;
    process.request(shedRequest(draining), false, (reply) => {
      process.isMarked = reply !== undefined && draining && this.draining;
    });
  }

  /** Rows of the groups' states that are not what was written, by their keys. */
  get rottenRows(): string[] {
    const prefixes = this.#prefixes;
    return this.disk.state.rotten.filter((key) => prefixes.includes(key.slice(0, 2)));
  }

  get #prefixes(): string[] {
    const { options } = this.#world;
    return options.groups.map((group) => latin1(prefixKey(this.disk.prefix(group))));
  }

  /** False: there is no row. */
  rotRow(random: Random): boolean {
    const prefix = random.pick(this.#prefixes);
    const keys = this.disk.state.keys(prefix, `${prefix}\xff`).filter((key) => key.charCodeAt(2) !== TAG.meta);
    if (keys.length === 0) return false;
    const key = random.pick(keys);
    const { length } = this.disk.state.read(key) as Uint8Array;
    this.disk.state.flipBit(key, random.int(0, length - 1), random.int(0, 7));
    this.#world.trace(`n${this.id} row ${Buffer.from(key, 'latin1').toString('hex')} rots`);
    return true;
  }

  /** A row without which a group cannot be opened. */
  rotGroupRow(random: Random): void {
    const group = random.pick(this.#world.options.groups);
    if (random.chance(TORN)) {
      this.disk.tearGroup(group);
      this.rotGroup = { group, isVote: false };
      return;
    }
    const meta = `${latin1(prefixKey(this.disk.prefix(group)))}${String.fromCharCode(TAG.meta)}`;
    const own = [OWN_TAG.half, OWN_TAG.vote, OWN_TAG.cut].map((tag) => latin1(systemKey(tag, group)));
    const keys = [meta, ...own].filter((key) => this.disk.state.read(key) !== undefined);
    if (keys.length === 0) return;
    const key = random.pick(keys);
    this.disk.state.flipBit(key, 0, random.int(0, 7));
    this.rotGroup = { group, isVote: key === latin1(systemKey(OWN_TAG.vote, group)) };
  }

  setSpaceLeft(spaceLeft: boolean): void {
    this.spaceLeft = spaceLeft;
    if (this.process !== undefined) this.process.store.spaceLeft = spaceLeft;
  }

  /**
   * Replaces the disk by an empty one; the process must have ended. The operator may have left init_membership in the
   * file: then only the peers know that something was lost.
   */
  wipe(): void {
    this.disk = new SimDisk(this.diskRandom);
    this.disks++;
    this.wasRotten = false;
    this.lostLog = !this.#tellings.chance(0.5);
  }

  /** A loss was noticed, by the operator or by a peer. */
  get knowsLoss(): boolean {
    return this.lostLog || this.wasRotten || this.disk.settled.length > 0;
  }
}
