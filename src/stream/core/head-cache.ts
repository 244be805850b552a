/** The heads of a group that are in memory: all changed ones, and a bounded number of others. */
import { assert } from '../../base/assert.ts';
import type { Head } from './head.ts';
import { equalsPart } from './keys.ts';

/** Heads kept in memory per group in addition to the dirty ones: 16 groups with full tail rows stay below 160 MiB. */
const HEADS_CACHED_MAX = 2048;
/** Keeps hostile clients from filling the memory of content types. */
const TYPES_MAX = 256;

export class HeadCache {
  /** By hash; heads with the same hash form a chain. */
  readonly #heads = new Map<number, Head>();
  readonly #types = new Map<string, string>();
  #count = 0;

  get count(): number {
    return this.#count;
  }

  /** The head whose key is the given part of `bytes`, perhaps a dead one. */
  find(hash: number, bytes: Uint8Array, start: number, length: number): Head | undefined {
    for (let head = this.#heads.get(hash); head !== undefined; head = head.next) {
      if (!equalsPart(head.key, bytes, start, length)) continue;
      head.used = true;
      return head;
    }
    return undefined;
  }

  /** Heads share a few content types, so each is stored once. */
  intern(type: string): string {
    const known = this.#types.get(type);
    if (known !== undefined) return known;
    if (this.#types.size < TYPES_MAX) this.#types.set(type, type);
    return type;
  }

  add(head: Head): void {
    head.next = this.#heads.get(head.hash);
    this.#heads.set(head.hash, head);
    this.#count++;
  }

  remove(head: Head): void {
    const first = this.#heads.get(head.hash);
    if (first === head) {
      if (head.next === undefined) this.#heads.delete(head.hash);
      else this.#heads.set(head.hash, head.next);
    } else {
      let before = first;
      while (before !== undefined && before.next !== head) before = before.next;
      assert(before !== undefined, 'a linked head is in its chain');
      before.next = head.next;
    }
    head.next = undefined;
    this.#count--;
  }

  /** Evicts once there are far too many clean heads. */
  makeRoom(dirty: number): void {
    if (this.#count - dirty >= 2 * HEADS_CACHED_MAX) this.evict();
  }

  /** Second-chance eviction of clean heads, oldest link first. */
  evict(): void {
    let excess = this.#count - HEADS_CACHED_MAX;
    if (excess <= 0) return;
    const candidates: Head[] = [];
    for (const head of this.#heads.values()) {
      if (candidates.length >= excess * 2) break;
      candidates.push(head);
    }
    for (const head of candidates) {
      if (excess <= 0) return;
      if (head.dirty || head.dead) continue;
      this.remove(head);
      if (head.used) {
        head.used = false;
        this.add(head);
      } else {
        excess--;
      }
    }
  }
}
