// Changes that a disk makes to a file by itself, or a careless hand to a folder. Each is drawn from a seed and says in
// one line what it changed.
import {
  copyFileSync,
  closeSync,
  openSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeSync,
} from 'node:fs';
import { basename } from 'node:path';
import type { Random } from '../support/random.ts';

/** Disks do these also under a process that runs. */
export const IN_PLACE = ['flip', 'zeros', 'misplaced'] as const;
export const FAULTS = [...IN_PLACE, 'cut', 'swapped', 'missing'] as const;
export type Fault = (typeof FAULTS)[number];

const PAGE_BYTES = 4096;
/** Draws before a fault takes a page although it is empty. */
const TRIES = 40;
/** Most faults hit bytes that mean something; the rest hits any byte, as disks do. */
const AT_CONTENT = 0.9;

/**
 * Changes one of `files` (some more of the same kind may be needed to take bytes from); `others` are files of another
 * place that a file may be swapped with.
 */
export function damage(files: readonly string[], others: readonly string[], fault: Fault, random: Random): string {
  const full = files.filter((file) => statSync(file).size > 0);
  const file = random.pick(full);
  const name = basename(file);
  const { size } = statSync(file);
  switch (fault) {
    case 'flip': {
      const at = placeIn(file, random);
      const bit = random.int(0, 7);
      change(file, at, (byte) => byte ^ (1 << bit));
      return `${name}: bit ${bit} of byte ${at}`;
    }
    case 'zeros': {
      const at = pageOf(placeIn(file, random));
      put(file, at, Buffer.alloc(Math.min(PAGE_BYTES, size - at)));
      return `${name}: zeros from byte ${at}`;
    }
    case 'misplaced': {
      const from = pageOf(placeIn(file, random));
      const to = pageOf(placeIn(file, random));
      put(file, to, take(file, from, Math.min(PAGE_BYTES, size - Math.max(from, to))));
      return `${name}: the page at ${from} also at ${to}`;
    }
    case 'cut': {
      const bytes = random.chance(0.5) ? random.int(0, size - 1) : pageOf(placeIn(file, random));
      truncateSync(file, bytes);
      return `${name}: ${bytes} of ${size} bytes`;
    }
    case 'swapped': {
      const other = random.pick([...full, ...others].filter((one) => one !== file).concat(file));
      swap(file, other, others.includes(other));
      return `${name}: ${other === file ? 'twice' : other} in its place`;
    }
    case 'missing':
      rmSync(file);
      return `${name}: removed`;
  }
}

function swap(file: string, other: string, isForeign: boolean): void {
  if (isForeign) return copyFileSync(other, file);
  // The only one of its kind: what lies there is twice as long, the second half the first once more.
  if (other === file) return put(file, statSync(file).size, readFileSync(file));
  const aside = `${file}.swap`;
  renameSync(file, aside);
  renameSync(other, file);
  renameSync(aside, other);
}

const pageOf = (at: number): number => at - (at % PAGE_BYTES);

/** A byte of the file, in a page that is not empty. */
function placeIn(file: string, random: Random): number {
  const { size } = statSync(file);
  let at = random.int(0, size - 1);
  if (!random.chance(AT_CONTENT)) return at;
  for (let i = 0; i < TRIES; i++) {
    const page = take(file, pageOf(at), Math.min(PAGE_BYTES, size - pageOf(at)));
    const used = page.findLastIndex((byte) => byte !== 0);
    if (used >= 0) return pageOf(at) + Math.min(at % PAGE_BYTES, used);
    at = random.int(0, size - 1);
  }
  return at;
}

function take(file: string, at: number, bytes: number): Buffer {
  const into = Buffer.alloc(Math.max(0, bytes));
  const descriptor = openSync(file, 'r');
  readSync(descriptor, into, 0, into.length, at);
  closeSync(descriptor);
  return into;
}

/** Into the file that is there: a process that has it open or mapped sees it. */
function put(file: string, at: number, bytes: Buffer): void {
  const descriptor = openSync(file, 'r+');
  writeSync(descriptor, bytes, 0, bytes.length, at);
  closeSync(descriptor);
}

function change(file: string, at: number, to: (byte: number) => number): void {
  put(file, at, Buffer.from([to(take(file, at, 1)[0] ?? 0)]));
}
