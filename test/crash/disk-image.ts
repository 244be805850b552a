// From the calls of a process to what its disk may hold when the power fails: all that was synced, and
// any part of the rest, sector by sector and name by name.
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import type { Random } from '../support/random.ts';
import type { Call } from './trace.ts';

const SECTOR_BYTES = 512;

/** A call from its start to its end, as lines of the trace. */
interface Span {
  readonly start: number;
  readonly end: number;
}

interface Write extends Span {
  readonly at: number;
  /** Undefined: the file ends at `at` from now on. */
  readonly bytes: Buffer | undefined;
  /** On disk when it returns. */
  readonly isSynced: boolean;
}

interface File {
  readonly base: Buffer;
  readonly writes: Write[];
  readonly syncs: Span[];
}

type Names = Map<string, File | 'folder'>;

/** A new name in a folder, or one that goes. */
interface Naming extends Span {
  readonly apply: (names: Names) => void;
}

interface Folder {
  readonly namings: Naming[];
  readonly syncs: Span[];
}

const HEX = /"((?:\\x[0-9a-f]{2})*)"/g;

/** The strings of a call, which strace -xx shows in hex. */
export function stringsOf(args: string): Buffer[] {
  return [...args.matchAll(HEX)].map(([, hex]) => Buffer.from((hex ?? '').replaceAll('\\x', ''), 'hex'));
}

function pathOf(hex: string): string {
  return Buffer.from(hex.replaceAll('\\x', ''), 'hex').toString();
}

const isDurable = ({ end }: Span, syncs: readonly Span[], line: number): boolean =>
  syncs.some((sync) => sync.start >= end && sync.end < line);

export class DiskImage {
  readonly #root: string;
  readonly #base: Names = new Map();
  /** As the process sees them. */
  readonly #names: Names;
  readonly #folders = new Map<string, Folder>();
  /** Descriptors whose writes are on disk when they return, and where write() goes on. */
  readonly #synced = new Set<number>();
  readonly #positions = new Map<number, number>();
  /** Lines at which something happened to the disk. */
  readonly lines: number[] = [];

  /** `root` as it is before the process starts; `seenAs`: where the process sees it. */
  constructor(root: string, seenAs: string) {
    this.#root = seenAs;
    for (const entry of readdirSync(root, { recursive: true, withFileTypes: true })) {
      // Its content is memory of processes.
      if (entry.name === 'lock.mdb') continue;
      const path = join(entry.parentPath, entry.name);
      const file = (): File => ({ base: readFileSync(path), writes: [], syncs: [] });
      this.#base.set(join(seenAs, relative(root, path)), entry.isFile() ? file() : 'folder');
    }
    this.#names = new Map(this.#base);
  }

  /** In the order of the trace. */
  take(call: Call): void {
    if (call.result < 0) return;
    if (this.#takes(call)) this.lines.push(call.start, call.end);
  }

  #takes(call: Call): boolean {
    const { name, args, fd, result } = call;
    if (name === 'openat') return this.#open(call);
    if (name === 'rename' || name === 'unlink' || name === 'rmdir' || name === 'mkdir') {
      const [from = '', to] = stringsOf(args).map(String);
      if (!this.#isInside(from)) return false;
      const file = this.#names.get(from);
      const change = (names: Names): void => {
        if (to !== undefined) moveNames(names, from, to);
        names.delete(from);
        if (to !== undefined && file !== undefined) names.set(to, file);
      };
      this.#rename(call, name === 'mkdir' ? (names) => names.set(from, 'folder') : change, dirname(from));
      return true;
    }
    const path = pathOf(call.file);
    const file = this.#names.get(path);
    if (name === 'fsync' || name === 'fdatasync') {
      if (path !== this.#root && !this.#isInside(path)) return false;
      (file === undefined || file === 'folder' ? this.#folder(path) : file).syncs.push(call);
      return true;
    }
    if (file === undefined || file === 'folder') return false;
    if (name === 'ftruncate') {
      file.writes.push({ ...call, at: Number(/, (\d+)$/.exec(args)?.[1]), bytes: undefined, isSynced: false });
      return true;
    }
    if (name === 'lseek') {
      this.#positions.set(fd, result);
      return false;
    }
    const bytes = Buffer.concat(stringsOf(args)).subarray(0, result);
    const at = name.startsWith('p') ? Number(/, (\d+)$/.exec(args)?.[1]) : (this.#positions.get(fd) ?? 0);
    if (!name.startsWith('p')) this.#positions.set(fd, at + result);
    if (bytes.length !== result || !Number.isInteger(at)) throw new Error(`${name}(${path}) is not shown in full`);
    file.writes.push({ ...call, at, bytes, isSynced: this.#synced.has(fd) });
    return true;
  }

  #open(call: Call): boolean {
    const [path = ''] = stringsOf(call.args).map(String);
    if (!this.#isInside(path) || path.endsWith('lock.mdb')) return false;
    if (/O_D?SYNC/.test(call.args)) this.#synced.add(call.result);
    else this.#synced.delete(call.result);
    this.#positions.set(call.result, 0);
    if (!call.args.includes('O_CREAT') || (this.#names.has(path) && !call.args.includes('O_TRUNC'))) return false;
    const file: File = { base: Buffer.alloc(0), writes: [], syncs: [] };
    this.#rename(call, (names) => names.set(path, file), dirname(path));
    return true;
  }

  #isInside(path: string): boolean {
    return path.startsWith(`${this.#root}/`);
  }

  #rename(call: Call, apply: Naming['apply'], folder: string): void {
    apply(this.#names);
    this.#folder(folder).namings.push({ start: call.start, end: call.end, apply });
  }

  #folder(path: string): Folder {
    let folder = this.#folders.get(path);
    if (folder === undefined) this.#folders.set(path, (folder = { namings: [], syncs: [] }));
    return folder;
  }

  /** Leaves in `target` what may be on the disk when the power fails at a line of the trace. */
  leave(target: string, line: number, random: Random): void {
    const names = new Map(this.#base);
    const kept = [...this.#folders.values()].flatMap(({ namings, syncs }) => {
      const begun = namings.filter(({ start }) => start < line);
      const durable = begun.findLastIndex((naming) => isDurable(naming, syncs, line)) + 1;
      // File systems keep the order of names.
      return begun.slice(0, random.int(durable, begun.length));
    });
    for (const { apply } of kept.sort((a, b) => a.start - b.start)) apply(names);
    const isReached = (path: string): boolean =>
      path === this.#root || (names.get(path) === 'folder' && isReached(dirname(path)));
    for (const [path, file] of names) {
      if (!isReached(dirname(path))) continue;
      const to = join(target, relative(this.#root, path));
      mkdirSync(file === 'folder' ? to : dirname(to), { recursive: true });
      if (file !== 'folder') writeFileSync(to, contentOf(file, line, random));
    }
  }
}

/** Files of a folder go where it goes. */
function moveNames(names: Names, from: string, to: string): void {
  for (const [path, file] of [...names]) {
    if (!path.startsWith(`${from}/`)) continue;
    names.delete(path);
    names.set(to + path.slice(from.length), file);
  }
}

function contentOf({ base, writes, syncs }: File, line: number, random: Random): Buffer {
  const begun = writes.filter(({ start }) => start < line);
  const most = Math.max(base.length, ...begun.map(({ at, bytes }) => at + (bytes?.length ?? 0)));
  const content = Buffer.alloc(most);
  base.copy(content);
  let size = base.length;
  // From nothing to all of what was not synced.
  const share = random.pick([0, 1, random.next()]);
  for (const write of begun) {
    const { at, bytes } = write;
    const isThere = isDurable(write, syncs, line) || (write.isSynced && write.end < line);
    if (bytes === undefined) {
      if (!isThere && !random.chance(share)) continue;
      content.fill(0, at);
      size = at;
      continue;
    }
    for (let from = 0; from < bytes.length;) {
      const end = Math.min(bytes.length, from + SECTOR_BYTES - ((at + from) % SECTOR_BYTES));
      if (isThere || random.chance(share)) {
        bytes.copy(content, at + from, from, end);
        size = Math.max(size, at + end);
      }
      from = end;
    }
  }
  return content.subarray(0, size);
}
