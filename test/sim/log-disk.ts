/**
 * The segment files of a simulated disk: what programs see is the page cache, and what was synced is on the platter. A
 * crash keeps any part of what was not synced, also of a single write. Survives the processes that use it.
 */
import type { Random } from '../support/random.ts';

/** Disks write whole sectors; the system writes whole pages. */
const SECTOR_BYTES = 512;
const PAGE_BYTES = 4096;

interface Write {
  readonly at: number;
  readonly end: number;
}

export class SimSegment {
  readonly name: string;
  /** As programs see it. */
  readonly content: Uint8Array;
  readonly #platter: Uint8Array;
  #unsynced: Write[] = [];
  /** Told when what was written so far is on the platter. */
  #notes: (() => void)[] = [];

  constructor(name: string, content: Uint8Array) {
    this.name = name;
    this.content = content;
    this.#platter = content.slice();
  }

  get bytes(): number {
    return this.content.length;
  }

  read(at: number, bytes: number): Uint8Array {
    return this.content.slice(at, at + bytes);
  }

  write(at: number, bytes: Uint8Array): void {
    this.content.set(bytes, at);
    this.#unsynced.push({ at, end: at + bytes.length });
  }

  whenSynced(note: () => void): void {
    this.#notes.push(note);
  }

  sync(): void {
    for (const { at, end } of this.#unsynced) this.#keep(at, end);
    this.#unsynced = [];
    for (const note of this.#notes.splice(0)) note();
  }

  crash(random: Random): void {
    for (const write of this.#unsynced) this.#tear(write, random);
    this.#unsynced = [];
    this.#notes = [];
    this.content.set(this.#platter);
  }

  /** Changes a bit of the platter, as rot does. */
  flipBit(at: number, bit: number): void {
    const byte = (this.#platter[at] as number) ^ (1 << bit);
    this.#platter[at] = byte;
    this.content[at] = byte;
  }

  #tear({ at, end }: Write, random: Random): void {
    switch (random.int(0, 3)) {
      case 0:
        return;
      case 1:
        return this.#keep(at, end);
      case 2:
        // Cut off somewhere, also within a sector.
        return this.#keep(at, random.int(at, end));
      default: {
        const unit = random.pick([SECTOR_BYTES, PAGE_BYTES]);
        for (let from = at; from < end; from += unit) {
          if (random.chance(0.5)) this.#keep(from, Math.min(end, from + unit));
        }
      }
    }
  }

  #keep(at: number, end: number): void {
    this.#platter.set(this.content.subarray(at, end), at);
  }
}

export class LogDisk {
  readonly #random: Random;
  readonly #segments = new Map<string, SimSegment>();
  /** Removed, but a crash may bring their names back: the folder was not synced since. */
  #removed: SimSegment[] = [];

  constructor(random: Random) {
    this.#random = random;
  }

  get segments(): SimSegment[] {
    return [...this.#segments.values()];
  }

  get(name: string): SimSegment {
    const segment = this.#segments.get(name);
    if (segment === undefined) throw new Error(`${name} is not there`);
    return segment;
  }

  /** On the platter with its name; so is all that happened to names before. */
  create(name: string, content: Uint8Array): SimSegment {
    const segment = new SimSegment(name, content);
    this.#segments.set(name, segment);
    this.#removed = [];
    return segment;
  }

  remove(name: string): void {
    this.#removed.push(this.get(name));
    this.#segments.delete(name);
  }

  setAside(): void {
    this.#segments.clear();
    this.#removed = [];
  }

  crash(): void {
    for (const segment of this.#removed.splice(0)) {
      if (this.#random.chance(0.5)) this.#segments.set(segment.name, segment);
    }
    for (const segment of this.#segments.values()) segment.crash(this.#random);
  }
}
