/** A node: what outlives its processes. */
import { StorageFullError } from '../../src/shard/ports.ts';
import { type Random, createRandom } from '../support/random.ts';
import { SimDisk } from './disk.ts';
import { SimCrash, SimProcess } from './process.ts';
import { shedRequest } from './requests.ts';
import type { World } from './world.ts';

const RETRY_MS = 300;

export class SimNode {
  readonly id: number;
  readonly random: Random;
  disk = new SimDisk();
  process: SimProcess | undefined;
  /** How far the wall clock is off. */
  wallOffsetMs: number;
  /** Of the clock that never steps, against simulated time. */
  clockRate: number;
  /** Commits are refused. */
  full = false;
  /** The volume is above its reserve, as far as the process has noticed. */
  spaceLeft = true;
  /** Commits take up to so much longer. */
  slowMs = 0;
  /** The next process finds an empty disk under a used node id. */
  lostLog = false;
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
    this.process.start();
    if (this.draining) this.drain(true);
    this.#world.started(this);
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

  setSpaceLeft(spaceLeft: boolean): void {
    this.spaceLeft = spaceLeft;
    if (this.process !== undefined) this.process.store.spaceLeft = spaceLeft;
  }

  /**
   * Replaces the disk by an empty one; the process must have ended. The operator may have left init_membership in the
   * file: then only the peers know that something was lost.
   */
  wipe(): void {
    this.disk = new SimDisk();
    this.disks++;
    this.lostLog = !this.#tellings.chance(0.5);
  }

  /** A loss was noticed, by the operator or by a peer. */
  get knowsLoss(): boolean {
    return this.lostLog || this.disk.settled.length > 0;
  }
}
