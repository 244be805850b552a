/**
 * How many connections each address has. The library says who comes, but of a connection that is closed no longer whose it was. So
 * there are two bounds of each number: all that came since the last count, and that less all that left, whoever they were. Only
 * when the limit lies between the two, the kernel's table is read, and counting begins anew.
 */

import { readFileSync } from 'node:fs';

/** Reading 10,000 rows takes some 10 ms of the HTTP thread; this often that is one percent. */
const RECOUNT_PAUSE_MS = 1000;
/** A count that takes long is repeated the more seldom: at most a twentieth of the thread. */
const RECOUNT_SHARE = 20;
/** Addresses that are remembered although they may have left, about 100 bytes each. */
const ADDRESSES_MAX = 100_000;

/** Connections by address, as the kernel has them now; undefined where it does not tell. */
export type CountByAddress = () => ReadonlyMap<string, number> | undefined;

export class AddressCount {
  readonly #limit: number;
  readonly #recount: CountByAddress;
  readonly #monotonicMs: () => number;
  /** Since the last count, those that it found included. */
  #arrived = new Map<string, number>();
  #left = 0;
  #nextRecountMs = -Infinity;

  constructor(limit: number, recount: CountByAddress, monotonicMs: () => number) {
    this.#limit = limit;
    this.#recount = recount;
    this.#monotonicMs = monotonicMs;
  }

  /** A connection is there. False: its address has more than the limit. */
  arrive(address: string): boolean {
    if (this.#arrived.size >= ADDRESSES_MAX) this.#countAnew(new Map());
    const most = (this.#arrived.get(address) ?? 0) + 1;
    this.#arrived.set(address, most);
    if (most <= this.#limit) return true;
    if (most - this.#left > this.#limit) return false;
    const clockMs = this.#monotonicMs();
    // Nobody knows: better one too many than a client that is shut out by mistake.
    if (clockMs < this.#nextRecountMs) return true;
    this.#countAnew(this.#arrived);
    const tookMs = this.#monotonicMs() - clockMs;
    this.#nextRecountMs = clockMs + Math.max(RECOUNT_PAUSE_MS, RECOUNT_SHARE * tookMs);
    return (this.#arrived.get(address) ?? 0) <= this.#limit;
  }

  leave(): void {
    this.#left++;
  }

  #countAnew(otherwise: Map<string, number>): void {
    const counted = this.#recount();
    if (counted !== undefined) this.#left = 0;
    this.#arrived = counted === undefined ? otherwise : new Map(counted);
  }
}

/** The states in which this process holds the descriptor: ESTABLISHED, and CLOSE_WAIT, which waits for it. */
const HELD = new Set(['01', '08']);
const MAPPED = '0000000000000000FFFF0000';

/** Undefined where there is no such table. */
export function connectionsTo(port: number): ReadonlyMap<string, number> | undefined {
  const counts = new Map<string, number>();
  let isKnown = false;
  for (const path of ['/proc/self/net/tcp', '/proc/self/net/tcp6']) {
    let text: string;
    try {
      text = readFileSync(path, 'latin1');
    } catch {
      continue;
    }
    isKnown = true;
    count(text, port.toString(16).toUpperCase().padStart(4, '0'), counts);
  }
  return isKnown ? counts : undefined;
}

/** `   1: 0100007F:1155 0100007F:C350 01 ...`, addresses as words in the order of this machine. @internal */
export function count(table: string, port: string, counts: Map<string, number>): void {
  for (const line of table.split('\n')) {
    const [, local, remote, state] = line.trim().split(/\s+/, 4);
    if (local === undefined || remote === undefined || state === undefined || !HELD.has(state)) continue;
    if (!local.endsWith(`:${port}`)) continue;
    const name = nameOf(remote.slice(0, remote.indexOf(':')));
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
}

/** The same name for 4 or 16 bytes as the library hands them over. */
export function nameOfBytes(bytes: Uint8Array): string {
  let words = '';
  for (let at = 0; at + 4 <= bytes.length; at += 4) {
    for (let i = 3; i >= 0; i--) words += (bytes[at + i] ?? 0).toString(16).toUpperCase().padStart(2, '0');
  }
  return nameOf(words);
}

/** An IPv4 address however it is written; of IPv6 the /64, because one host has all of it. */
function nameOf(words: string): string {
  if (words.length === 8) return words;
  return words.startsWith(MAPPED) ? words.slice(MAPPED.length) : words.slice(0, 16);
}
